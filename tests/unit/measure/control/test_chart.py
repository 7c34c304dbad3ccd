import xml.etree.ElementTree as ET

from tailrace.measure.control.chart import TRACES, blocks, to_svg
from tailrace.measure.control.plant import Sample
from tailrace.measure.control.response import Response

SVG = "{http://www.w3.org/2000/svg}"


def response(name: str) -> Response:
    samples = tuple(Sample(at_s, 1.0, 32, 64, 0.5, 2.0) for at_s in (-1.0, 0.0, 1.0))
    return Response(name, 0.0, 0.0, {}, samples)


def test_a_block_is_as_high_as_its_share_and_no_higher_than_all() -> None:
    assert blocks([0.0, 32.0, 64.0, 640.0, -1.0], 64.0) == "▁▅██▁"


def test_the_file_is_svg_with_a_panel_for_each_response_and_a_line_for_each_trace() -> None:
    root = ET.fromstring(to_svg([response("load < 2"), response("other")]))
    panels = root.findall(f"{SVG}g")
    assert [panel.findtext(f"{SVG}text") for panel in panels] == ["load < 2", "other"]
    for panel in panels:
        lines = panel.findall(f"{SVG}polyline")
        assert [len(line.get("points", "").split()) for line in lines] == [3] * len(TRACES)


def test_traces_keep_to_their_panel() -> None:
    root = ET.fromstring(to_svg([response("too much")]))
    heights = {
        float(point.split(",")[1]) for line in root.iter(f"{SVG}polyline") for point in line.get("points", "").split()
    }
    assert min(heights) == 34.0
    assert max(heights) < 220 - 24
