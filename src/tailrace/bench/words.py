"""Common English words: nearly all are one token, with the space before them, to a tokenizer that has seen English."""

__all__ = ["WORDS"]

_TEXT = """
the and for with from that this they have been were said each which their time will about many then them
these some her would make like him into has look two more write see number way could people than first water
call who oil its now find long down day did get come made may part over new sound take only little work know
place year live back give most very after thing our just name good sentence man think say great where help
through much before line right too mean old any same tell boy follow came want show also around form three
small set put end does another well large must big even such because turn here why ask went men read need
land different home move try kind hand picture again change off play spell air away animal house point page
letter mother answer found study still learn should world high every near add food between own below country
plant last school father keep tree never start city earth eye light thought head under story saw left few
while along might close something seem next hard open example begin life always those both paper together
got group often run important until children side feet car mile night walk white sea began grow took river
four carry state once book hear stop without second later miss idea enough eat face watch far really almost
let above girl sometimes mountain cut young talk soon list song being leave family body music color stand sun
question fish area mark dog horse bird problem complete room knew since ever piece told usually friend easy
heard order red door sure become top ship across today during short better best however low hour black
product happen whole measure remember early wave reach listen wind rock space cover fast several hold himself
toward five step morning pass true hundred against pattern table north slow money map farm pull draw voice
power town fine drive fall lead cry dark machine note wait plan figure star box field rest able done beauty
drop week final gave green quick develop ocean warm free minute strong special mind behind clear tail produce
fact street inch nothing course stay wheel full force blue object decide surface deep moon island foot system
busy test record boat common gold possible plane stead dry wonder laugh thousand ago ran check game shape
"""
WORDS: tuple[str, ...] = tuple(_TEXT.split())
