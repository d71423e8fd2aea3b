"""``entries:list`` of ``logging/v2``, the one method by which gcloud reads logs (gcloud.md 7).

The document names the project, so the handler asks itself whether the caller may read it.
"""

from trainshed.api.call import Call, Json
from trainshed.api.lists import page
from trainshed.api.permissions import Permissions
from trainshed.model.access import AccessRole
from trainshed.service.log.pages import LogService
from trainshed.wire.logging_v2 import entries


class LogEntries:
    """The methods of ``entries``."""

    def __init__(self, logs: LogService, permissions: Permissions) -> None:
        """Ask this service for the logs of projects that the caller may read."""
        self._logs = logs
        self._permissions = permissions

    def list(self, call: Call) -> Json:
        """One page of a job's log."""
        named, query = entries.parse(call.document)
        project = self._permissions.enter(call.caller, AccessRole.VIEWER, named)
        found = self._logs.entries(project, query)
        shown = entries.render(found.lines, project=project, job_id=found.job_id)
        return page("entries", shown, found.next_page_token)
