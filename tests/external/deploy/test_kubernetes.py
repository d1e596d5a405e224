"""The manifests: valid against Kubernetes' own schemas, as restricted as pods can be, and in agreement."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from mailsift import gauges
from tests.support.deploy_files import DEPLOY, manifests

KUBERNETES = DEPLOY / "kubernetes"
OBJECTS = [document for path, document in manifests() if path.name != "kustomization.yaml"]
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())


def of_kind(*kinds: str) -> list[dict[str, Any]]:
    found = [document for document in OBJECTS if document["kind"] in kinds]
    assert found, kinds
    return found


PODS = {document["metadata"]["name"]: document for document in of_kind("Deployment", "Job")}


def pod(name: str) -> dict[str, Any]:
    spec: dict[str, Any] = PODS[name]["spec"]["template"]["spec"]
    return spec


def containers(name: str) -> Iterator[dict[str, Any]]:
    yield from pod(name).get("initContainers", ())
    yield from pod(name)["containers"]


def labels(name: str) -> dict[str, str]:
    """Labels of a pod as kustomize makes them."""
    own = PODS[name]["spec"]["template"]["metadata"]["labels"]
    (common,) = KUSTOMIZATION["labels"]
    assert common["includeTemplates"] is True
    return {**own, **common["pairs"]}


def chosen(selector: dict[str, Any]) -> set[str]:
    """Names of the pods a selector chooses."""
    wanted = selector.get("matchLabels", {})
    one_of = {rule["key"]: rule["values"] for rule in selector.get("matchExpressions", ())}
    return {
        name
        for name in PODS
        if all(labels(name).get(key) == value for key, value in wanted.items())
        and all(labels(name).get(key) in values for key, values in one_of.items())
    }


@pytest.mark.parametrize("version", ["1.30.0", "1.37.0"])
def test_every_manifest_is_valid(version: str) -> None:
    files = [path for path in sorted(KUBERNETES.glob("*.yaml")) if path.name != "kustomization.yaml"]
    judge = [sys.executable, "-m", "kubernetes_validate", "--strict", "-k", version]
    done = subprocess.run([*judge, *files], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (done.stdout + done.stderr).count("passed for resource") == len(OBJECTS)


def test_kustomize_takes_in_every_file() -> None:
    files = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(KUSTOMIZATION["resources"]) == files
    images = {container["image"] for name in PODS for container in containers(name)}
    assert {image["name"] for image in KUSTOMIZATION["images"]} == images
    assert all(image["newTag"] != "latest" for image in KUSTOMIZATION["images"])


@pytest.mark.parametrize("name", PODS)
def test_a_pod_is_as_restricted_as_the_strictest_standard_wants(name: str) -> None:
    spec = pod(name)
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] >= 10_000
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    assert all(set(volume) & {"secret", "emptyDir"} for volume in spec.get("volumes", ()))
    for container in containers(name):
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert {"requests", "limits"} <= set(container["resources"])
    (namespace,) = of_kind("Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("name", ["api", "worker", "sweeper", "resolver"])
def test_a_deployment_is_spread_probed_and_kept_by_a_budget(name: str) -> None:
    spec = pod(name)
    assert PODS[name]["spec"]["selector"]["matchLabels"].items() <= labels(name).items()
    keys = {rule["topologyKey"] for rule in spec["topologySpreadConstraints"]}
    assert "kubernetes.io/hostname" in keys
    assert all(chosen(rule["labelSelector"]) == {name} for rule in spec["topologySpreadConstraints"])
    assert spec["terminationGracePeriodSeconds"] >= 60
    assert all("livenessProbe" in container for container in spec["containers"])
    budgets = [chosen(one["spec"]["selector"]) for one in of_kind("PodDisruptionBudget")]
    assert budgets.count({name}) == 1


@pytest.mark.parametrize("name", ["api", "worker", "sweeper"])
def test_a_new_pod_waits_for_the_schema(name: str) -> None:
    (first,) = pod(name)["initContainers"]
    assert first["args"] == ["migrate", "--wait"]
    assert PODS["migrate"]["kind"] == "Job"
    assert pod("migrate")["containers"][0]["args"] == ["migrate"]


def test_workers_follow_the_age_of_the_queue_by_a_metric_that_exists() -> None:
    scalers = {
        one["spec"]["scaleTargetRef"]["name"]: one["spec"] for one in of_kind("HorizontalPodAutoscaler")
    }
    assert set(scalers) <= set(PODS)
    (metric,) = scalers["worker"]["metrics"]
    assert metric["external"]["metric"]["name"] in {
        family.name for one in gauges.METRICS for family in one.describe()
    }
    assert "replicas" not in PODS["worker"]["spec"], "the scaler and the manifest would fight"
    assert "replicas" not in PODS["api"]["spec"]


def test_nothing_comes_in_or_goes_out_that_no_policy_names() -> None:
    policies = {one["metadata"]["name"]: one["spec"] for one in of_kind("NetworkPolicy")}
    assert policies["nobody"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    out = [one for one in policies.values() if "egress" in one]
    assert {name for one in out for name in chosen(one["podSelector"])} == set(PODS)
    assert chosen(policies["to-world"]["podSelector"]) == {"api", "worker", "sweeper"}
    assert chosen(policies["resolver"]["ingress"][0]["from"][0]["podSelector"]) == set(PODS)
    for rule in (rule for one in out for rule in one["egress"]):
        for block in (peer["ipBlock"] for peer in rule["to"] if "ipBlock" in peer):
            assert block["cidr"] == "2000::/3" or {"10.0.0.0/8", "169.254.0.0/16"} <= set(block["except"])
    ports = {port["port"] for rule in policies["to-world"]["egress"] for port in rule["ports"]}
    assert ports == {25, 443, 8443}


def test_services_lead_to_pods_and_ports_that_are_there() -> None:
    for service in of_kind("Service"):
        selector = service["spec"]["selector"]
        (name,) = chosen({"matchLabels": selector})
        offered = {port["name"] for container in pod(name)["containers"] for port in container["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= offered
    (resolver,) = (one for one in of_kind("Service") if one["metadata"]["name"] == "resolver")
    (settings,) = of_kind("ConfigMap")
    assert settings["data"]["MAILSIFT_DNS_SERVERS"] == f"{resolver['spec']['clusterIP']}:53"


@pytest.mark.parametrize("ingress", ["10.244.1.7", "100.64.3.2", "192.168.9.1", "fd00:10:244::7"])
async def test_who_writes_into_x_forwarded_for_stays_who_he_is(ingress: str) -> None:
    """Many an ingress adds the caller's address to what the caller has written there."""
    (settings,) = (one["data"] for one in of_kind("ConfigMap") if one["metadata"]["name"] == "mailsift")
    seen: list[Any] = []

    async def app(scope: Any, *_: object) -> None:
        seen.append(scope["client"][0])

    async def nothing(*_: object) -> Any:
        raise AssertionError

    proxied = ProxyHeadersMiddleware(app, trusted_hosts=settings["FORWARDED_ALLOW_IPS"])
    for written in (b"203.0.113.7", b"198.51.100.1, 203.0.113.7"):
        headers = [(b"x-forwarded-for", written)]
        scope: Any = {"type": "http", "scheme": "http", "client": (ingress, 1), "headers": headers}
        await proxied(scope, nothing, nothing)
    assert seen == ["203.0.113.7"] * 2
