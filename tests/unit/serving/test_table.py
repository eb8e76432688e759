"""The handler table: declarations are complete, owners are known, no handler is a coroutine."""

import inspect
import types

import pytest

from cometmq.broker import handlers
from cometmq.nameserver import routes
from cometmq.protocol import GetMaxOffset, OffsetAnswer
from cometmq.serving import OPEN, Handler, Permission, handler_table, handles

ALL = [*handlers.MODULES, routes]


def functions():
    for module in ALL:
        for value in vars(module).values():
            if hasattr(value, "__handles__"):
                yield value


def test_every_handler_declares_permission_largest_body_and_largest_number_waiting():
    found = list(functions())
    assert len(found) >= 17
    for function in found:
        declared = function.__handles__
        assert isinstance(declared, Handler)
        assert isinstance(declared.needs, Permission)
        assert declared.largest_body > 0
        assert declared.most_waiting > 0
        for field in filter(None, (declared.needs.topic, declared.needs.group)):
            assert any(field in base.__annotations__ for base in declared.header.__mro__[:-1])


def test_no_handler_is_a_coroutine():
    assert not [one for one in functions() if inspect.iscoroutinefunction(one)]


def test_the_administrative_codes_of_this_version_are_declared_so():
    codes = {
        int(code)
        for function in functions()
        for code in [function.__handles__.header.code]
        if function.__handles__.needs.kind == "admin"
    }
    assert codes == {17, 103, 104, 200, 351}


class Owner:
    """Somebody's state."""


def module_of(*handlers):
    module = types.ModuleType("handlers")
    for one in handlers:
        setattr(module, one.__name__, one)
    return module


def test_owners_are_handed_in_by_their_type():
    owner = Owner()

    @handles(GetMaxOffset, needs=OPEN)
    def serve(owner: Owner, ask: GetMaxOffset, now_ms: int):
        return OffsetAnswer(now_ms if isinstance(owner, Owner) else 0)

    table = handler_table([module_of(serve)], [owner])
    entry = table[30]
    assert entry.serve(GetMaxOffset("T", 0), None, None, 7) == OffsetAnswer(7)


def test_an_unknown_owner_stops_the_start():
    @handles(GetMaxOffset, needs=OPEN)
    def serve(owner: Owner, ask: GetMaxOffset):
        return None

    with pytest.raises(TypeError, match="nobody owns owner: Owner"):
        handler_table([module_of(serve)], [])


def test_a_coroutine_stops_the_start():
    @handles(GetMaxOffset, needs=OPEN)
    async def serve(ask: GetMaxOffset):
        return None

    with pytest.raises(TypeError, match="a handler never waits"):
        handler_table([module_of(serve)], [])


def test_two_handlers_for_one_code_stop_the_start():
    @handles(GetMaxOffset, needs=OPEN)
    def one(ask: GetMaxOffset):
        return None

    @handles(GetMaxOffset, needs=OPEN)
    def two(ask: GetMaxOffset):
        return None

    with pytest.raises(TypeError, match="code 30 is served already"):
        handler_table([module_of(one, two)], [])
