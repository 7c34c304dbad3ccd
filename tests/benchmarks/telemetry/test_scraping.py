from benchmarks.telemetry.scraping import Server, measure


def test_a_scrape_shows_what_all_processes_have_counted() -> None:
    exposition = Server(2, num_classes=2, num_routes=1)
    text = exposition.scrape(exposition.snapshots(), "text/plain").decode()
    assert 'tailrace_http_requests_total{route="/route/0",status="429"} 2.0' in text
    assert 'tailrace_requests_finished_total{class="class-1",finished_reason="stop"} 2.0' in text
    assert 'tailrace_level_up{level="redis"} 2.0' in text


def test_what_it_costs_is_told_with_its_size() -> None:
    cost = measure(Server(1, num_classes=1, num_routes=1), "text/plain", num_rounds=2)
    assert (cost.num_processes, cost.format) == (1, "text/plain")
    assert cost.num_lines > 1000
    assert cost.num_bytes > 10 * cost.num_lines
    assert cost.worst_s >= cost.scrape_s > 0.0
