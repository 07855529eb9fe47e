"""Every way through the cuts of a small network, without a beam."""

from __future__ import annotations

from tflite_fuse.split.cut.plan import Plan
from tflite_fuse.split.needs import Accountant
from tflite_fuse.split.search.auto import Search
from tflite_fuse.split.search.labels import Label, plans_of
from tflite_fuse.split.search.message_order import soonest
from tflite_fuse.split.simulate import Course
from tflite_fuse.split.splitting import timeline_of


def every_way(search: Search, most: int) -> list[Label] | None:
    """All ways to the last cut; None where there are more than so many to some cut."""
    ways = [[search.transfer_costs.start()]]
    for last in range(1, len(search.places)):
        found = [
            search.transfer_costs.extended(label, edge, 0)
            for first in range(last)
            for edge in search._between(first, last)
            for label in ways[first]
            if search._is_next(label, edge)
        ]
        if len(found) > most:
            return None
        ways.append(found)
    return ways[-1]


def timelines(search: Search, labels: list[Label], accountant: Accountant) -> list[Course]:
    """Of the plans of ways, their messages in the best order found, on simulated devices."""
    cluster = search.cluster

    def timeline(plan: Plan) -> Course:
        return timeline_of(plan, cluster, accountant.over(plan.sums))

    plans = [plan for label in labels for plan in plans_of(label, search.network, cluster, "")]
    return [timeline(soonest(plan, lambda each: timeline(each).seconds, by_phase=True)) for plan in plans]
