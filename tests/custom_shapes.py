"""The shapes of KEDA's and Kueue's kinds as far as the manifests use them, closed: a name that is not here is a typo,
or has to be looked up first. `tests/bench/custom_resources.py` checks against the projects' own schemas."""

from __future__ import annotations

from typing import Any

TEXT, NUMBER, YES = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "boolean"}
QUANTITY = {"type": "string", "pattern": r"^[0-9.]+([EPTGMK]i?|m)?$"}


def shape(required: str = "", **fields: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": fields, "required": required.split()}


def many(one: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": one, "minItems": 1}


METADATA = shape("name", name=TEXT, namespace=TEXT, labels={"type": "object", "additionalProperties": TEXT})
SELECTOR = shape("matchLabels", matchLabels={"type": "object", "additionalProperties": TEXT})
TRIGGER = shape(
    "type metadata",
    type={"const": "metrics-api"},
    metricType={"enum": ["AverageValue", "Value"]},
    metadata=shape(
        "url valueLocation targetValue",
        url={"type": "string", "pattern": "/scale/"}, valueLocation={"const": "wanted"}, targetValue=TEXT,
    ),
)  # fmt: skip
POLICIES = many(
    shape("type value periodSeconds", type={"enum": ["Pods", "Percent"]}, value=NUMBER, periodSeconds=NUMBER)
)
BEHAVIOR = shape(
    "scaleDown",
    scaleUp=shape(policies=POLICIES),
    scaleDown=shape("stabilizationWindowSeconds policies", stabilizationWindowSeconds=NUMBER, policies=POLICIES),
)

QUOTA = shape("name nominalQuota", name=TEXT, nominalQuota=QUANTITY)

SPECS: dict[tuple[str, str], dict[str, Any]] = {
    ("keda.sh/v1alpha1", "ScaledObject"): shape(
        "scaleTargetRef triggers maxReplicaCount",
        scaleTargetRef=shape("name", name=TEXT),
        minReplicaCount=NUMBER, maxReplicaCount=NUMBER, pollingInterval=NUMBER, cooldownPeriod=NUMBER,
        fallback=shape("failureThreshold replicas", failureThreshold=NUMBER, replicas=NUMBER),
        advanced=shape(horizontalPodAutoscalerConfig=shape(behavior=BEHAVIOR)),
        triggers=many(TRIGGER),
    ),
    ("keda.sh/v1alpha1", "ScaledJob"): shape(
        "jobTargetRef triggers",
        minReplicaCount=NUMBER, maxReplicaCount=NUMBER, pollingInterval=NUMBER,
        successfulJobsHistoryLimit=NUMBER, failedJobsHistoryLimit=NUMBER,
        scalingStrategy=shape("strategy", strategy={"enum": ["default", "custom", "accurate", "eager"]}),
        rollout=shape("strategy", strategy={"enum": ["default", "gradual"]}),
        jobTargetRef={"type": "object"},  # a JobSpec: checked as one
        triggers=many(TRIGGER),
    ),
    ("kueue.x-k8s.io/v1beta1", "ResourceFlavor"): shape(nodeLabels={"type": "object", "additionalProperties": TEXT}),
    ("kueue.x-k8s.io/v1beta1", "LocalQueue"): shape("clusterQueue", clusterQueue=TEXT),
    ("kueue.x-k8s.io/v1beta1", "ClusterQueue"): shape(
        "resourceGroups namespaceSelector",
        namespaceSelector=SELECTOR,
        queueingStrategy={"enum": ["StrictFIFO", "BestEffortFIFO"]},
        preemption=shape(
            withinClusterQueue={"enum": ["Never", "LowerPriority", "LowerOrNewerEqualPriority"]},
            reclaimWithinCohort={"enum": ["Never", "LowerPriority", "Any"]},
        ),
        resourceGroups=many(
            shape(
                "coveredResources flavors",
                coveredResources=many(TEXT),
                flavors=many(shape("name resources", name=TEXT, resources=many(QUOTA))),
            )
        ),
    ),
}  # fmt: skip


def schema_of(version: str, kind: str) -> dict[str, Any]:
    """The whole resource's schema. KeyError for a kind that nobody has described."""
    return shape(
        "metadata spec",
        apiVersion={"const": version},
        kind={"const": kind},
        metadata=METADATA,
        spec=SPECS[version, kind],
    )
