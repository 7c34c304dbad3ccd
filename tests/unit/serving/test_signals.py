"""In a process of its own each time: signals are the whole process's."""

import os
import signal
import subprocess
import sys
import time

CODE = """
import os, signal, sys
from tailrace.serving.signals import SignalQueue
queue = SignalQueue()
queue.take([signal.SIGUSR1, signal.SIGTERM])
print("ready", flush=True)
while True:
    for number in queue.wait(0.05):
        print(number.name, flush=True)
        if number is signal.SIGTERM:
            sys.exit(7)
"""


def test_signals_come_in_order_and_who_was_stopped_goes_on() -> None:
    with subprocess.Popen([sys.executable, "-c", CODE], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for _ in range(5):  # longer than it waits
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            time.sleep(0.08)
            process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGUSR1)
        assert process.stdout.readline() == "SIGUSR1\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == "SIGTERM\n"
    assert process.returncode == 7
