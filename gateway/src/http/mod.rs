//! HTTP: accepting, bounding and classifying requests.
