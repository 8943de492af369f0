//! Types of the stable Kubernetes API.
