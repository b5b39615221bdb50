"""JUnit XML: what CI systems accept, and that nothing a machine says can break it."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from tests.unit.report.conftest import CLEANED, HOSTILE

from reflexarc.report.junit import junit
from reflexarc.report.story import Story

# Source: the schemas by which Ant's JUnitReport and Jenkins read such files, where both agree.
SUITE_ATTRIBUTES = {
    "id": r"\d+",
    "name": r"\S(.*\S)?",
    "package": r"\S(.*\S)?",
    "hostname": r"\S(.*\S)?",
    "timestamp": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d",
    "time": r"\d+\.\d{3}",
    "tests": r"\d+",
    "failures": r"\d+",
    "errors": r"\d+",
    "skipped": r"\d+",
}
CASE_ATTRIBUTES = {"name": r"\S(.*\S)?", "classname": r"\S(.*\S)?", "time": r"\d+\.\d{3}"}
OUTCOMES = {"failure": {"type", "message"}, "error": {"type", "message"}, "skipped": {"message"}}


def checked(document: bytes) -> list[Xml.Element]:
    """The suites of a document, each checked against what the schemas say."""
    root = Xml.fromstring(document)
    assert (root.tag, root.attrib) == ("testsuites", {})
    for number, suite in enumerate(root):
        assert suite.tag == "testsuite"
        check_attributes(suite, SUITE_ATTRIBUTES)
        assert suite.get("id") == str(number)
        tags = [child.tag for child in suite]
        assert tags == ["properties", *["testcase"] * (len(tags) - 3), "system-out", "system-err"]
        for entry in suite[0]:
            check_attributes(entry, {"name": r"\S(.*\S)?", "value": r"(?s).*"})
        found = [check_case(case) for case in suite.findall("testcase")]
        assert suite.get("tests") == str(len(found))
        for outcome, total in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert suite.get(total) == str(found.count(outcome))
    return list(root)


def check_case(case: Xml.Element) -> str:
    check_attributes(case, CASE_ATTRIBUTES)
    if len(case) == 0:
        return "passed"
    (outcome,) = case
    assert set(outcome.attrib) == OUTCOMES[outcome.tag]
    return outcome.tag


def check_attributes(node: Xml.Element, expected: dict[str, str]) -> None:
    assert set(node.attrib) == set(expected)
    for name, pattern in expected.items():
        assert re.fullmatch(pattern, node.attrib[name]), (name, node.attrib[name])


def outcomes(suite: Xml.Element) -> dict[str, str]:
    return {
        str(case.get("name")): case[0].tag if len(case) else "passed" for case in suite.findall("testcase")
    }


def test_a_run_that_succeeded(succeeded: Story) -> None:
    (suite,) = checked(junit([succeeded]))
    assert set(outcomes(suite).values()) == {"passed"}
    assert (suite.get("name"), suite.get("hostname"), suite.get("tests")) == ("played", "lab", "9")
    properties = {entry.get("name"): entry.get("value") for entry in suite[0]}
    assert properties["outcome"] == "succeeded"
    assert properties["run_id"] == succeeded.state.run_id
    assert properties["registered.kernel"] == "6.1.0-57-cloud-amd64"
    assert properties["vision_calls"] == "0"
    assert properties["reads.text"] == str(succeeded.telemetry.reads["text"])
    seconds = sum(float(str(case.get("time"))) for case in suite.findall("testcase"))
    assert seconds == pytest.approx(succeeded.seconds, abs=0.01)


def test_a_held_run_fails_with_the_screen(held: Story) -> None:
    (suite,) = checked(junit([held]))
    failure = suite.find("testcase[@name='user']/failure")
    assert failure is not None
    assert failure.get("type") == "off_script"
    assert failure.get("message") == "off_script: expected login_prompt; the machine shows crash_screen"
    assert "Kernel panic - not syncing: VFS: Unable to mount root fs" in str(failure.text)
    assert list(outcomes(suite).values()) == ["passed"] * 3 + ["failure"] + ["skipped"] * 5


def test_a_failed_run_says_why_without_control_characters(failed: Story) -> None:
    (suite,) = checked(junit([failed]))
    failure = suite.find("testcase[@name='stop']/failure")
    assert failure is not None
    assert failure.get("message") == " ".join(CLEANED.split())
    assert suite.get("name") == "fails & <falls>"
    assert outcomes(suite) == {
        "on": "passed", "menu": "passed", "never": "skipped", "more": "passed", "skipped": "skipped",
        "stop": "failure", "after": "skipped",
    }  # fmt: skip
    assert "amended the playbook, to go on at 'skipped' (<b>somebody</b>)" in str(
        suite.findtext("system-out")
    )


def test_a_hostile_screen_arrives_as_it_was(hostile: Story) -> None:
    (suite,) = checked(junit([hostile]))
    text = suite.findtext("testcase[@name='go on ]]>']/failure")
    assert text is not None
    for line in HOSTILE:
        assert line in text.splitlines()


def test_several_runs_are_one_document(succeeded: Story, held: Story, failed: Story, tmp_path: Path) -> None:
    suites = checked(junit([succeeded, held, failed]))
    assert [suite.get("id") for suite in suites] == ["0", "1", "2"]
    assert checked(junit([])) == []
