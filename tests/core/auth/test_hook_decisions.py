"""What is asked of a hook, remembered of its answers, and bounded; without sockets and with the test's own clock."""

from __future__ import annotations

import pytest

from fastpath.core.auth.hook_decisions import DEAD_MAX, ROOM, SLICE, HookDecisions
from fastpath.core.auth.hook_questions import CONNECT, LATE, SUBJECTS_MAX, HookReply, Question, Verdict
from fastpath.core.auth.reasons import ASKED, AWAY
from fastpath.core.auth.rules import PUBLISH, SUBSCRIBE
from tests.support.core.hooks import Connection

START = 1_700_000_000_000


class Stage:
    """An Asking that is stepped by hand."""

    def __init__(self) -> None:
        self.asking = HookDecisions((CONNECT, SUBSCRIBE, PUBLISH), 5)
        self.now = START
        self.woken = 0
        self.faults: list[Exception] = []
        self.asking.run_by(self.wake, self.faults.append)

    def wake(self) -> None:
        """Counted."""
        self.woken += 1

    def questions(self) -> list[Question]:
        """All that there are, by as many steps as it takes."""
        found, more = self.asking.step(self.now)
        while more:
            some, more = self.asking.step(self.now)
            found += some
        return found

    def answer(self, question: Question, *, seconds: float | None = None, allow: bool = True) -> None:
        """The same for each subject."""
        count = len(question.about.get("subjects", ("",)))
        self.asking.answer(question.number, HookReply(verdicts=[Verdict(allow, "no", seconds)] * count), self.now)


def test_one_question_at_a_time_about_a_thousand_subjects() -> None:
    """What is wanted meanwhile comes with the next one, and nothing is asked twice."""
    stage = Stage()
    subjects = [f"/s/{number}" for number in range(SUBJECTS_MAX + 2)]
    party = Connection(stage.asking, *subjects)
    for _ in range(2):
        assert {party.asked.check(SUBSCRIBE, subject, stage.now) for subject in subjects} == {ASKED}
    assert stage.woken == 1
    [first] = stage.questions()
    assert first.about == {"event": SUBSCRIBE, "user": "ann", "subjects": subjects[:SUBJECTS_MAX]}
    for subject in subjects:
        party.asked.check(SUBSCRIBE, subject, stage.now)
    assert not stage.questions()
    party.follows.discard(subjects[-1])  # it is not wanted any more
    stage.answer(first)
    [second] = stage.questions()
    assert second.about["subjects"] == [subjects[-2]]
    stage.answer(second, allow=False)
    assert party.asked.check(SUBSCRIBE, subjects[0], stage.now) == ""
    assert party.asked.check(SUBSCRIBE, subjects[-2], stage.now) == "no"
    assert not stage.questions()


def test_to_be_let_in_is_asked_first() -> None:
    stage = Stage()
    party = Connection(stage.asking, "/a/b")
    for key in ((SUBSCRIBE, "/a/b"), (PUBLISH, "/a/b"), (CONNECT, "")):
        party.asked.want(key)
    events = []
    while found := stage.questions():
        events.append(found[0].about["event"])
        assert ("token" in found[0].about) == (events[-1] == CONNECT)
        stage.answer(found[0])
    assert events == [CONNECT, PUBLISH, SUBSCRIBE]


def test_an_answer_ends() -> None:
    """What is used is asked again and goes on meanwhile; what is not is forgotten; once is once."""
    stage = Stage()
    party = Connection(stage.asking, "/runs/on", "/once/only")
    for subject in ("/runs/on", "/over/now"):
        party.follows.add(subject)
        party.asked.check(SUBSCRIBE, subject, stage.now)
    stage.answer(stage.questions()[0], seconds=10)
    party.asked.check(SUBSCRIBE, "/once/only", stage.now)
    stage.answer(stage.questions()[0], seconds=0)
    party.follows.discard("/over/now")
    stage.now += 9_999
    stage.asking.tick(stage.now)
    assert not stage.questions()
    stage.now += 1
    stage.asking.tick(stage.now)
    assert party.asked.holds("/runs/on", stage.now) == party.asked.holds("/once/only", stage.now) == ""
    [question] = stage.questions()
    assert question.about["subjects"] == ["/runs/on"]
    assert (SUBSCRIBE, "/over/now") not in party.asked.known
    stage.answer(question, allow=False)
    assert party.asked.holds("/runs/on", stage.now) == "no"
    assert party.asked.check(SUBSCRIBE, "/once/only", stage.now) == ASKED


def test_nobody_answers() -> None:
    """It is given up, and asked again a little later; a publication gets its reason once."""
    stage = Stage()
    party = Connection(stage.asking, "/a/b")
    party.asked.check(PUBLISH, "/a/b", stage.now)
    stage.questions()
    stage.now += 5_999
    stage.asking.tick(stage.now)
    assert not party.told
    stage.now += 1
    stage.asking.tick(stage.now)
    assert [(event, reply.failed) for event, _, reply in party.told] == [(PUBLISH, AWAY)]
    assert stage.asking.open == 0
    party.asked.check(SUBSCRIBE, "/a/b", stage.now)
    [question] = stage.questions()
    stage.asking.answer(question.number, HookReply(failed="late"), stage.now)
    assert party.asked.check(SUBSCRIBE, "/a/b", stage.now) == ASKED
    assert not stage.questions()
    stage.now += 500
    stage.asking.tick(stage.now)
    assert len(stage.questions()) == 1


def test_what_runs_goes_on_while_nobody_answers() -> None:
    stage = Stage()
    party = Connection(stage.asking, "/a/b")
    party.asked.check(SUBSCRIBE, "/a/b", stage.now)
    stage.answer(stage.questions()[0])
    stage.asking.recheck(party.asked)
    stage.asking.answer(stage.questions()[0].number, HookReply(failed="late"), stage.now)
    assert party.asked.holds("/a/b", stage.now) == ""


def test_what_is_kept_of_a_connection_is_bounded() -> None:
    """However many subjects it comes and goes with: what it follows is kept."""
    stage = Stage()
    party = Connection(stage.asking, *(f"/own/{number}" for number in range(100)))
    for subject in party.follows:
        party.asked.check(SUBSCRIBE, subject, stage.now)
    stage.answer(stage.questions()[0])
    for number in range(2 * ROOM):
        party.asked.check(SUBSCRIBE, f"/s/{number}", stage.now)
        assert len(party.asked.known) + len(party.asked.wanted) <= ROOM + 100
    for question in stage.questions():
        stage.answer(question)
    for number in range(2 * ROOM):
        party.asked.want((PUBLISH, f"/p/{number}"))
        assert len(party.asked.known) + len(party.asked.wanted) <= ROOM + 100
    assert {party.asked.check(SUBSCRIBE, subject, stage.now) for subject in party.follows} == {""}


def test_connections_that_are_gone_leave_nothing() -> None:
    """Also where their answers would have counted for long, and where a question is open."""
    stage = Stage()
    for _ in range(3 * DEAD_MAX):
        party = Connection(stage.asking)
        party.asked.want((CONNECT, ""))
        stage.answer(stage.questions()[0], seconds=86_400)
        party.asked.want((CONNECT, ""))
        [question] = stage.questions()
        party.asked.close()
        assert not stage.asking.answer(question.number, HookReply(), stage.now)
        party.asked.want((CONNECT, ""))
    assert not stage.questions()
    assert stage.asking.open == 0
    assert len(stage.asking._ends) <= DEAD_MAX + 1
    assert len(party.told) == 1


def test_asking_everybody_again_leaves_room_for_others() -> None:
    """A step looks at so many answers and no more."""
    stage = Stage()
    parties = [Connection(stage.asking, *(f"/s/{number}" for number in range(300))) for _ in range(10)]
    for party in parties:
        for subject in party.follows:
            party.asked.check(SUBSCRIBE, subject, stage.now)
    for question in stage.questions():
        stage.answer(question)
    for party in parties:
        stage.asking.recheck(party.asked)
    steps, more = 0, True
    while more:
        questions, more = stage.asking.step(stage.now)
        steps += 1
        assert len(questions) <= 2
        for party in parties:
            assert party.asked.holds("/s/1", stage.now) == ""
    assert steps >= 10 * 300 // SLICE


def test_a_fault_in_what_waits_ends_it_alone() -> None:
    stage = Stage()
    party, other = Connection(stage.asking), Connection(stage.asking)
    party.raises = True
    for one in (party, other):
        one.asked.want((CONNECT, ""))
    first, second = stage.questions()
    with pytest.raises(ValueError, match="a fault"):
        stage.answer(first)
    stage.answer(second)
    assert (party.failed, other.failed, len(other.told)) == (True, False, 1)


def test_of_whom_nothing_can_be_said_is_ended_alone() -> None:
    """What the others ask in the same step goes out."""
    stage = Stage()
    parties = [Connection(stage.asking) for _ in range(3)]
    parties[1].unknown = True
    for party in parties:
        party.asked.want((CONNECT, ""))
    assert len(stage.questions()) == 2
    assert [party.failed for party in parties] == [False, True, False]
    assert [str(fault) for fault in stage.faults] == ["nothing can be said of it"]
    assert stage.asking.open == 2


@pytest.mark.parametrize("first", [True, False])
def test_what_was_being_asked_when_all_is_asked_again_counts_until_then(first: bool) -> None:
    """It may have been decided before that which has changed."""
    stage = Stage()
    party = Connection(stage.asking, "/a/b")
    party.asked.check(SUBSCRIBE, "/a/b", stage.now)
    [question] = stage.questions()
    stage.asking.recheck(party.asked)
    assert not stage.questions()
    stage.answer(question, allow=first)
    [again] = stage.questions()
    assert again.about["subjects"] == ["/a/b"]
    assert party.asked.holds("/a/b", stage.now) == ""
    stage.answer(again, allow=not first)
    assert party.asked.check(SUBSCRIBE, "/a/b", stage.now) == ("no" if first else "")
    assert not stage.questions()
    party.asked.check(PUBLISH, "/a/b", stage.now)
    [question] = stage.questions()
    stage.asking.recheck(party.asked)
    stage.answer(question)
    [again] = stage.questions()  # about what it reads
    stage.answer(again)
    assert party.asked.check(PUBLISH, "/a/b", stage.now) == ASKED


def test_what_was_asked_about_another_user_does_not_count() -> None:
    """Nor what had been answered: what ran for him goes on until it is known that nobody answers."""
    stage = Stage()
    party = Connection(stage.asking, "/runs/on", "/to/come")
    party.asked.check(SUBSCRIBE, "/runs/on", stage.now)
    stage.answer(stage.questions()[0])
    party.asked.check(SUBSCRIBE, "/to/come", stage.now)
    [question] = stage.questions()
    party.asked.renew(another=True)
    assert party.asked.holds("/runs/on", stage.now) == ""
    assert not stage.asking.answer(question.number, HookReply(verdicts=[Verdict(True)]), stage.now)
    assert party.asked.check(SUBSCRIBE, "/to/come", stage.now) == ASKED
    [question] = stage.questions()
    assert question.about["subjects"] == ["/to/come", "/runs/on"]
    stage.asking.answer(question.number, HookReply(failed=LATE), stage.now)
    assert party.asked.holds("/runs/on", stage.now) == ASKED


def test_a_hook_that_is_late_gets_smaller_questions() -> None:
    """Down to one subject, and larger ones again when it answers; one that nobody was asked makes no difference."""
    stage = Stage()
    subjects = [f"/s/{number}" for number in range(SUBJECTS_MAX)]
    party = Connection(stage.asking, *subjects)
    sizes = []
    while len(sizes) < 12:
        for subject in subjects:
            party.asked.check(SUBSCRIBE, subject, stage.now)
        [question] = stage.questions()
        sizes.append(len(question.about["subjects"]))
        stage.asking.answer(question.number, HookReply(failed=AWAY if len(sizes) == 1 else LATE), stage.now)
        stage.now += 500
        stage.asking.tick(stage.now)
    assert sizes == [1000, 1000, 500, 250, 125, 62, 31, 15, 7, 3, 1, 1]
    sizes.clear()
    while questions := stage.questions():
        sizes.append(len(questions[0].about["subjects"]))
        stage.answer(questions[0])
    assert sizes[:9] == [1, 2, 3, 4, 5, 6, 7, 8, 10]
    assert sum(sizes) == SUBJECTS_MAX
    assert len(sizes) < 50
