"""A manifest is read strictly: every mistake is found in one go, each with its line, its field and the way out, and never with a secret in it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from quorate.hosts.manifest import Manifest, ManifestError, parse, read
from quorate.hosts.manifest.findings import child, item, parent, related
from quorate.hosts.manifest.values import Opaque, Secret, duration
from tests.hosts.manifests import SMALLEST, changed, document, problems
from tests.hosts.manifests import load as load_document


def mistakes(text: str) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        parse(dedent(text), source="kubeone.yaml")
    return [str(problem) for problem in caught.value.problems]


def test_the_smallest_manifest_is_valid_and_nothing_is_told_of_it() -> None:
    manifest = load_document(SMALLEST)
    assert manifest.name == "demo"
    assert (manifest.notices, manifest.ignored) == ((), ())


HEAD = "apiVersion: kubeone.k8c.io/v1beta2\nkind: KubeOneCluster\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "kubeone.yaml: is empty"),
        ("---\n", "kubeone.yaml: is empty"),
        ("- a\n", "kubeone.yaml:1: is not a mapping; write `apiVersion: kubeone.k8c.io/v1beta2`"),
        ("kind: Cluster\n", "kubeone.yaml:1: kind: is Cluster, and must be KubeOneCluster"),
        ("name: a\n", "kubeone.yaml:1: kind: is missing, and must be KubeOneCluster"),
        ("kind: KubeOneCluster\n", "kubeone.yaml:1: apiVersion: is missing, and must be kubeone.k8c.io/v1beta2"),
        (
            "kind: KubeOneCluster\napiVersion: kubeone.k8c.io/v1beta3\n",
            "kubeone.yaml:2: apiVersion: is kubeone.k8c.io/v1beta3, which KubeOne itself",
        ),
        ("kind: KubeOneCluster\napiVersion: kubeone.io/v1beta1\n", "convert it with `kubeone config migrate`"),
        (f"{HEAD}---\n{HEAD}", "kubeone.yaml: holds 2 documents; one KubeOneCluster is expected"),
        ("a: [1\n", "kubeone.yaml:2: is not YAML: "),
        ("a: \tb\n c: d", "is not YAML: "),
        ("a: *nowhere\n", "kubeone.yaml:1: is not YAML: "),
        ("a: \x00", "is not YAML: "),
    ],
)
def test_what_is_no_manifest_is_refused_with_the_reason(text: str, expected: str) -> None:
    [mistake] = mistakes(text)
    assert expected in mistake


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("nam", "did you mean name?"),
        ("controlplane", "did you mean controlPlane?"),
        ("controlPlane.hosts.0.sshUser", "did you mean sshUsername?"),
        ("controlPlane.hosts.0.publicAdress", "did you mean publicAddress?"),
        ("controlPlane.hosts.1.SSHPORT", "did you mean sshPort?"),
        ("controlPlane.host", "did you mean hosts?"),
        ("clusterNetwork.podsubnet", "did you mean podSubnet?"),
        ("clusterNetwork.cni.external.x", "known here: none"),
        ("features.oidcConnect", "did you mean openidConnect?"),
        ("versions.kubernets", "did you mean kubernetes?"),
        ("podSubnet", "it belongs in clusterNetwork; is it indented right?"),
        ("kubernetes", "it belongs in versions; is it indented right?"),
        ("features.flags", "it belongs in controlPlaneComponents.controllerManager or "),
        ("staticWorkers.replicas", "it belongs in dynamicWorkers[] or features.coreDNS"),
        ("assetConfiguration", "use registryConfiguration.overwriteRegistry"),
        ("podPresets", "Kubernetes 1.20 removed PodPresets"),
        ("workers", "it is dynamicWorkers"),
        ("kubeletConfig.podPidsLimit", "it exists in v1beta3 only"),
        ("features.webhookAuditLog", "it exists in v1beta3 only"),
        ("credentials", "credentials do not belong in a manifest"),
        ("systemPackages.zzz", "known here: configureRepositories"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_that_is_known(path: str, expected: str) -> None:
    found = problems(changed(path, "x"))
    [(where, message)] = found.items()
    assert where == path.replace(".0.", "[0].").replace(".1.", "[1].")
    assert message.startswith("is not a known key; ")
    assert expected in message


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("name", {"a": 1}, "is a mapping, and must be a text"),
        ("name", [1], "is a list, and must be a text"),
        ("name", 12, "is a number, and must be a text; put it in quotes"),
        ("name", True, "is true or false, and must be a text; put it in quotes"),
        ("versions.kubernetes", 1.34, "is a number, and must be a text; put it in quotes"),
        ("controlPlane.hosts.0.sshPort", "22", "is a text, and must be a whole number"),
        ("controlPlane.hosts.0.sshPort", True, "is true or false, and must be a whole number"),
        ("controlPlane.hosts.0.sshPort", 22.5, "is a number, and must be a whole number"),
        ("controlPlane.hosts.0.isLeader", "yes", "is a text, and must be true or false"),
        ("controlPlane.hosts.0.isLeader", 1, "is a number, and must be true or false"),
        ("controlPlane.hosts", {}, "is a mapping, and must be a list"),
        ("controlPlane.hosts.0", "192.0.2.1", "is a text, and must be a mapping"),
        ("controlPlane", [], "is a list, and must be a mapping"),
        ("controlPlane.hosts.0.labels", ["a"], "is a list, and must be a mapping"),
        ("controlPlane.hosts.0.labels.a", 1, "is a number, and must be a text; put it in quotes"),
        ("controlPlane.hosts.0.taints", {}, "is a mapping, and must be a list"),
        (
            "controlPlane.hosts.0.operatingSystem",
            "Ubunto",
            "is none of ubuntu, debian, centos, rhel, rockylinux, flatcar; did you mean ubuntu?",
        ),
        ("controlPlane.hosts.0.operatingSystem", "amzn", "is none of ubuntu, debian, centos, rhel, rockylinux, flatcar"),
        ("controlPlane.hosts.0.sshHostPublicKey", "?", "is not base64"),
        ("clusterNetwork.ipFamily", "IPv5", "is none of IPv4, IPv6, IPv4+IPv6, IPv6+IPv4; did you mean IPv6?"),
        ("clusterNetwork.kubeProxy", {"ipvs": {"tcpTimeout": "soon"}}, "must be a duration such as 8760h or 1h30m"),
        ("certificateAuthority.certificateValidityPeriod", "1y", "must be a duration such as 8760h or 1h30m"),
        ("dynamicWorkers", "none", "is a text, and must be a list"),
        ("controlPlaneComponents.apiServer", {"featureGates": {"A": "true"}}, "is a text, and must be true or false"),
    ],
)
def test_a_value_of_another_kind_is_refused(path: str, value: object, expected: str) -> None:
    [message] = problems(changed(path, value)).values()
    assert message == expected


@pytest.mark.parametrize("path", ["controlPlane.hosts.0.sshPort", "controlPlaneComponents.etcd.quotaBackendBytes"])
@pytest.mark.parametrize("number", [f"0x{'f' * 5000}", f"-0x{'f' * 5000}", "9" * 5000, "0x1ffffffffffffffff"])
def test_a_number_that_nobody_can_print_is_refused_with_its_line(path: str, number: str) -> None:
    text = yaml.safe_dump(changed(path, 123456789)).replace("123456789", number)
    with pytest.raises(ManifestError, match=r"is a number that is too large|is not a value of the kind that its tag says") as raised:
        parse(text)
    assert raised.value.problems[0].mark.line


def test_every_mistake_is_told_at_once_in_the_order_of_the_lines() -> None:
    found = mistakes(
        """\
        apiVersion: kubeone.k8c.io/v1beta2
        kind: KubeOneCluster
        name: Demo
        versions:
          kubernetes: 1.34.4
        cloudProvider:
          none: {}
        controlPlane:
          hosts:
          - publicAddress: 10.0.0.1
            sshprt: 22
          - hostname: b
        apiEndpoint:
          host: api.example.com
          port: 99999
        """
    )
    assert found == [
        "kubeone.yaml:3: name: Demo has capitals; Kubernetes accepts demo",
        "kubeone.yaml:11: controlPlane.hosts[0].sshprt: is not a known key; did you mean sshPort?",
        "kubeone.yaml:12: controlPlane.hosts[1]: has neither publicAddress nor privateAddress; give one at least",
        "kubeone.yaml:15: apiEndpoint.port: 99999 is not a port; ports are 1 to 65535",
    ]


def test_one_mistake_is_one_line_and_several_are_a_list() -> None:
    with pytest.raises(ManifestError, match=r"^kubeone.yaml:\d+: name: .*$"):
        load_document(changed("name", "A"))
    with pytest.raises(ManifestError) as caught:
        load_document(document(name="A", versions=None))
    assert str(caught.value).startswith("2 mistakes:\n  kubeone.yaml:")


def test_a_key_that_appears_twice_is_refused_with_both_lines() -> None:
    found = mistakes(f"{HEAD}name: a\nname: b\n{yaml.safe_dump(document(name=None, kind=None, apiVersion=None))}")
    assert found == ["kubeone.yaml:4: name: appears twice, first in line 3; keep one of them"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("name: !vault x", "has a tag that a manifest cannot have"),
        ("name: !!int x", "is not a value of the kind that its tag says"),
        ("? [a]\n: b", "has a key that is not text"),
        ("controlPlane: &it {hosts: [*it]}", "has an alias of what it is part of"),
    ],
)
def test_yaml_that_has_no_meaning_in_a_manifest_is_refused(line: str, expected: str) -> None:
    assert any(expected in mistake for mistake in mistakes(f"{HEAD}{line}\n"))


def test_aliases_and_merges_work_and_what_is_written_wins() -> None:
    text = yaml.safe_dump(document(controlPlane=None)) + dedent(
        """\
        controlPlane:
          hosts:
          - &first
            publicAddress: 10.0.0.1
            sshUsername: ubuntu
            sshPort: 2222
          - <<: *first
            publicAddress: 10.0.0.2
          - <<: [{sshPort: 23}, *first]
            publicAddress: 10.0.0.3
        """
    )
    hosts = parse(text).control_plane.hosts
    assert [(host.public_address, host.ssh_username, host.ssh_port) for host in hosts] == [
        ("10.0.0.1", "ubuntu", 2222),
        ("10.0.0.2", "ubuntu", 2222),
        ("10.0.0.3", "ubuntu", 23),
    ]


@pytest.mark.parametrize("value", ["null", "~", ""])
def test_null_counts_as_not_written(value: str) -> None:
    text = yaml.safe_dump(document(systemPackages=None, proxy=None)) + f"systemPackages: {value}\nproxy: {value}\n"
    manifest = parse(text)
    assert manifest.system_packages.configure_repositories
    assert manifest.proxy.no_proxy == ""


@pytest.mark.parametrize(
    ("path", "zero", "expected"),
    [
        ("apiEndpoint.port", 0, 6443),
        ("controlPlane.hosts.0.sshPort", 0, 22),
        ("loggingConfig.containerLogMaxFiles", 0, 5),
        ("features.openidConnect.config.usernamePrefix", "", "oidc:"),
        ("features.coreDNS.replicas", 0, 0),
    ],
)
def test_what_go_cannot_tell_from_absence_has_the_default(path: str, zero: object, expected: object) -> None:
    manifest = load_document(changed(path, zero))
    values = {
        "apiEndpoint.port": manifest.api_endpoint.port,
        "controlPlane.hosts.0.sshPort": manifest.control_plane.hosts[0].ssh_port,
        "loggingConfig.containerLogMaxFiles": manifest.logging_config.container_log_max_files,
        "features.openidConnect.config.usernamePrefix": manifest.features.openid_connect.config.username_prefix,
        "features.coreDNS.replicas": manifest.features.core_dns.replicas,
    }
    assert values[path] == expected


def test_a_time_of_day_stays_text() -> None:
    manifest = load_document(changed("controlPlane.hosts.0.annotations", {"restart": "X"}))
    assert manifest.control_plane.hosts[0].annotations == {"restart": "X"}
    text = yaml.safe_dump(changed("controlPlane.hosts.0.annotations", {"restart": "X"})).replace("restart: X", "restart: 12:30")
    assert parse(text).control_plane.hosts[0].annotations == {"restart": "12:30"}


def test_a_file_is_named_in_what_is_wrong_with_it(tmp_path: Path) -> None:
    path = tmp_path / "kubeone.yaml"
    with pytest.raises(ManifestError, match=r"kubeone.yaml: cannot be read: No such file"):
        read(path)
    path.write_bytes(b"\xff")
    with pytest.raises(ManifestError, match=r"kubeone.yaml: is not UTF-8 text"):
        read(path)
    path.write_text(yaml.safe_dump(SMALLEST))
    assert parse(read(path)).name == "demo"


SECRETS = {
    "features.encryptionProviders": {"enable": True, "customEncryptionConfiguration": "hunter2: ["},
    "cloudProvider.cloudConfig": "hunter2",
    "containerRuntime.containerd.registries": {
        "a.example.com": {"auth": {"username": "u", "password": "hunter2", "auth": "hunter2", "identityToken": "hunter2"}}
    },
    "proxy": {"http": "http://user:hunter2@proxy.example.com:3128"},
    "dynamicWorkers": [
        {"name": "a", "replicas": 1, "providerSpec": {"cloudProviderSpec": {"token": "hunter2"}, "overwriteCloudConfig": "hunter2"}}
    ],
}


@pytest.mark.parametrize("path", SECRETS)
def test_a_secret_is_in_no_repr(path: str) -> None:
    made = changed(path, SECRETS[path])
    if path.startswith("features"):
        made["features"]["encryptionProviders"]["enable"] = False  # or its content would be judged
    manifest = load_document(made, ignore=True)
    assert "hunter2" not in f"{manifest!r} {manifest}"


@pytest.mark.parametrize(
    "path",
    [
        "features.encryptionProviders.customEncryptionConfiguration",
        "cloudProvider.cloudConfig",
        "proxy.http",
        "proxy.https",
        "controlPlane.hosts.0.sshHostPublicKey",
        "certificateAuthority.bundle",
    ],
)
@pytest.mark.parametrize("value", ["hunter2", ["hunter2"], {"hunter2key": "hunter2"}, "hunter2: [\n"])
def test_a_secret_is_in_no_error(path: str, value: object) -> None:
    made = changed("features.encryptionProviders.enable", value=True)
    made.update(name="Broken")
    parents, _, last = path.rpartition(".")
    target = made
    for key in parents.split("."):
        target = target[int(key)] if isinstance(target, list) else target.setdefault(key, {})
    target[last] = value
    with pytest.raises(ManifestError) as caught:
        load_document(made)
    assert "hunter2" not in str(caught.value)


def test_broken_yaml_is_not_quoted() -> None:
    assert "hunter2" not in mistakes("password: hunter2\n bad: [hunter2\n")[0]


def test_a_secret_is_told_only_when_asked() -> None:
    assert (repr(Secret("x")), str(Secret("x")), f"{Opaque('x')!r} {Opaque('x')}") == ("Secret()", "Secret()", "Opaque() Opaque()")
    assert Secret("x").reveal() == "x"
    assert Secret("x")
    assert not Secret("")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("1s", 1),
        ("2m", 120),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("-1m", -60),
        ("250ms", 0.25),
        ("8760h", 31536000),
        ("1h0.5s", 3600.5),
    ],
)
def test_a_duration_is_read_as_go_reads_it(text: str, seconds: float) -> None:
    assert duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "1", "1d", "h", "1h 2m", "--1h", "1.2.3h", "9999999999999999h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        duration(text)


@given(st.lists(st.one_of(st.text("abc.[]/-", min_size=1), st.integers(0, 9)), min_size=1))
def test_the_parent_of_a_path_is_around_it(parts: list[str | int]) -> None:
    path = ""
    for part in parts:
        longer = child(path, part.replace("]", "").replace("[", "") or "x") if isinstance(part, str) else item(path or "list", part)
        assert related(longer, longer)
        path = longer
    while path:
        above = parent(path)
        assert len(above) < len(path)
        assert not above or related(path, above)
        path = above


@given(st.text(max_size=200))
def test_no_text_does_more_than_be_refused(text: str) -> None:
    try:
        parse(text)
    except ManifestError:
        return
    pytest.fail("no random text is a manifest")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text("abc{}", max_size=4),
        lambda below: (
            st.lists(below, max_size=3) | st.dictionaries(st.sampled_from([*SMALLEST, "hosts", "cni", "none", "taints"]), below, max_size=4)
        ),
        max_leaves=12,
    ),
    st.sampled_from(
        [path for path in SMALLEST if path not in ("apiVersion", "kind")]
        + ["proxy", "staticWorkers", "dynamicWorkers", "addons", "controlPlaneComponents"]
    ),
)
def test_whatever_a_field_holds_the_answer_is_a_manifest_or_its_mistakes(value: object, path: str) -> None:
    try:
        found: Manifest | ManifestError = load_document(changed(path, value), ignore=True)
    except ManifestError as error:
        found = error
    assert isinstance(found, Manifest) or found.problems
