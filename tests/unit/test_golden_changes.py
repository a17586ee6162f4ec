"""These tests check the summary of changes in golden files: every hunk appears once."""

from __future__ import annotations

from golden_changes import changes_in_words

BEFORE = "# a node\nip netns add x\n# up\nip link set x up\n# a port\nip link add p\n"
NOW = BEFORE.replace("ip netns add x", "ip netns add y")


def test_a_hunk_is_shown_once_with_the_number_of_its_files() -> None:
    other = BEFORE.replace("# a port\nip link add p\n", "")
    changes = [("a/p2p.txt", BEFORE, NOW), ("b/p2p.txt", BEFORE, NOW), ("c.txt", BEFORE, other)]
    assert changes_in_words(changes) == [
        "3 steps changed in 3 files, 2 distinct hunks",
        "",
        "2 times, in a/p2p.txt and 1 more:",
        "-ip netns add x",
        "+ip netns add y",
        "",
        "1 times, in c.txt:",
        "-# a port",
        "-ip link add p",
    ]


def test_a_step_of_a_case_that_is_like_another_is_a_step() -> None:
    before = "## p2p\n# a node\nip netns add x\n## v2v, like 'p2p':\n+# a port\n+ip link add p\n"
    now = before.replace("+ip link add p\n", "+ip link add q\n+# up\n+ip link set q up\n")
    assert changes_in_words([("a.txt", before, now)])[0].startswith("2 steps changed")


def test_a_reason_that_is_worded_anew_is_a_step_and_hunks_of_a_file_are_apart() -> None:
    now = BEFORE.replace("# a node", "# the node").replace("add p", "add q")
    assert changes_in_words([("a.txt", BEFORE, now)])[0] == (
        "2 steps changed in 1 files, 2 distinct hunks"
    )


def test_where_nothing_changed_nothing_is_shown() -> None:
    assert changes_in_words([]) == ["0 steps changed in 0 files, 0 distinct hunks"]
