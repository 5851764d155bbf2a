"""The JobTemplate controller: which jobs were made from a template.

Source: volcano-controllers Part F, JobTemplate.
"""

from __future__ import annotations

from typing import ClassVar, Final

from strato.api.meta import Key
from strato.api.volcano.batch import Job
from strato.api.volcano.flow import JobTemplate
from strato.client.informer import Change
from strato.controllers.context import ControllerContext
from strato.controllers.flow.build import CREATED_BY_TEMPLATE
from strato.controllers.flow.controller import index_created_by
from strato.controllers.reconcile import KeyedController

DEBOUNCE_SECONDS: Final = 0.5
"""Delay before a pass, so that jobs created together cause one write; each write sends the whole list."""


class JobTemplateController(KeyedController):
    """See the module."""

    name: ClassVar[str] = "jobtemplate-controller"
    workers: ClassVar[int] = 2

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._templates = context.informers.informer(JobTemplate)
        self._jobs = context.informers.informer(Job)
        self._by_template = index_created_by(self._jobs, CREATED_BY_TEMPLATE)
        self._templates.add_handler(self._on_template)
        self._jobs.add_handler(self._on_job, among=lambda changes: changes if len(self._templates) else ())

    def _on_template(self, change: Change[JobTemplate]) -> None:
        if change.old is None and change.new is not None:
            self.queue.add(change.key)

    def _on_job(self, change: Change[Job]) -> None:
        if change.old is None and change.new is not None:
            origin = change.new.metadata.label(CREATED_BY_TEMPLATE)
            namespace, _, name = origin.partition(".")  # a namespace has no dots, a template's name may
            if name:
                self.queue.add_after(Key(namespace, name), DEBOUNCE_SECONDS)

    async def reconcile(self, key: Key) -> float | None:
        """Write the list of jobs when there are some and it differs."""
        template = self._templates.get(key)
        if template is None or template.metadata.deletion_timestamp is not None:
            return None
        made = self._jobs.index(self._by_template, f"{key.namespace}.{key.name}")
        names = sorted(job.metadata.name for job in made if job.metadata.namespace == key.namespace)
        if not names or tuple(names) == template.status.job_depends_on_list:
            return None
        await self.write_status(JobTemplate, key, {"jobDependsOnList": names})
        return None
