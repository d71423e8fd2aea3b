"""The benchmark of reducers beside the ring of gloo, behind links of a known rate."""
