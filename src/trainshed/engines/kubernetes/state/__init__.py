"""The state of an attempt: from the API's objects and the attempt's records to a decision.

All functions are pure.  ``objects`` reads facts from the API's objects, ``facts`` has the facts of
one observation, and ``proof`` decides.  ``causes``, ``obstacles`` and ``kueue`` answer one question
each: why an attempt was lost, why its replicas do not start, and why it waits in a queue.
"""
