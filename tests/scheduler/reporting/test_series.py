"""Gauges of queues and jobs, by Volcano's names."""

from __future__ import annotations

from strato.clock import VirtualClock
from strato.metrics import Registry
from strato.scheduler.model.plan import GroupCondition, GroupStatus, Plan
from strato.scheduler.reporting.series import Series
from tests.scheduler import worlds
from tests.scheduler.test_service import create, running, virtually


def test_queues_and_jobs_have_their_series_as_long_as_they_are_there() -> None:
    async def story(clock: VirtualClock) -> None:
        metrics = Registry()
        async with running(clock, metrics=metrics) as (cluster, scheduler):
            group = worlds.group("g", 1)
            await create(cluster, worlds.node("n1", cpu="2"), group, *[worlds.pod(f"p{i}", "g") for i in range(3)])
            await clock.sleep(3)
            text = metrics.render().decode()
            assert 'volcano_queue_allocated_milli_cpu{queue_name="default"} 2000.0' in text
            assert 'volcano_queue_request_milli_cpu{queue_name="default"} 3000.0' in text
            assert 'volcano_queue_allocated_scalar_resources{queue_name="default",resource="pods"} 2.0' in text
            assert 'volcano_queue_weight{queue_name="default"} 1.0' in text
            assert 'strato_scheduler_total_resource{pool="",resource="cpu"} 2.0' in text
            assert 'strato_scheduler_total_resource{pool="",resource="memory"} 8.589934592e+09' in text
            assert 'strato_scheduler_total_resource{pool="",resource="pods"} 110.0' in text
            assert 'volcano_unschedule_task_count{job_id="g"} 1.0' in text
            assert text.count('volcano_unschedule_task_count{job_id="g"}') == 1
            assert 'volcano_job_share{job_id="g",job_ns="ns"} 1.0' in text
            assert 'volcano_e2e_job_scheduling_duration{job_name="g",job_namespace="ns",queue="default"}' in text
            scheduler.world.remove_group("ns/g")
            for i in range(3):
                scheduler.world.remove_pod(f"ns/p{i}")
            gone = metrics.render().decode()
            assert 'job_id="g"' not in gone
            assert 'job_name="g"' not in gone

    virtually(story)


def test_jobs_that_are_gone_are_forgotten_though_nobody_reads() -> None:
    world = worlds.world(worlds.node("n1", cpu="8"), worlds.group("stays", 1), worlds.pod("stays", "stays"))
    series = Series(world, Registry())
    series.bound(world.tasks["ns/stays"], 1.0)
    for number in range(5000):
        worlds.feed(world, worlds.group(f"g{number}", 1), worlds.pod(f"g{number}", f"g{number}"))
        series.bound(world.tasks[f"ns/g{number}"], 1.0)
        late = world.jobs[f"ns/g{number}"]
        series.cycle(
            Plan(groups=[GroupStatus(late, "Inqueue", 0, 0, 0, GroupCondition("Unschedulable", "True", "", ""))])
        )
        world.remove_group(late.key)
        world.remove_pod(late.key)
    assert "ns/stays" in series._times
    assert len(series._times) + len(series._retries) < 2500


COUNTED = [
    'volcano_plugin_scheduling_latency_milliseconds_bucket{OnSession="OnSessionOpen",le="+Inf",plugin="gang"}',
    'volcano_plugin_scheduling_latency_milliseconds_bucket{OnSession="OnSessionClose",le="0.1',
    'volcano_action_scheduling_latency_milliseconds_count{action="allocate"}',
    "volcano_e2e_scheduling_latency_milliseconds_count",
    "volcano_open_session_duration_milliseconds_count",
    "volcano_e2e_job_scheduling_latency_milliseconds_count 1.0",
    'volcano_task_scheduling_latency_milliseconds_count{stage="Assumed"} 2.0',
    'volcano_task_scheduling_latency_milliseconds_count{stage="Bound"} 2.0',
    'volcano_scheduling_stage_duration_milliseconds_count{stage="Bind"} 2.0',
    'volcano_job_retry_counts{job_id="late"}',
    'volcano_queue_deserved_milli_cpu{queue_name="default"} 2000.0',
    'volcano_queue_deserved_scalar_resources{queue_name="default",resource="pods"}',
    'volcano_schedule_attempts_total{result="scheduled"} 2.0',
]


def test_latencies_and_outcomes_have_volcanos_names_and_bounds() -> None:
    async def story(clock: VirtualClock) -> None:
        metrics = Registry()
        async with running(clock, metrics=metrics) as (cluster, _):
            groups = [{**worlds.group(name, 2)} for name in ("g", "late")]
            for group in groups:
                group["metadata"]["creationTimestamp"] = "2023-11-14T22:13:00Z"
            pods = [worlds.pod(f"{name}{i}", name) for name in ("g", "late") for i in range(2)]
            await create(cluster, worlds.node("n1", cpu="2"), *groups, *pods)
            await clock.sleep(3)
            lines = metrics.render().decode()
            assert [wanted for wanted in COUNTED if wanted not in lines] == []

    virtually(story)
