"""Loading a policy and serving it until Ctrl-C or SIGTERM: the reply under way may end, whoever waits is told."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from ipaddress import ip_address

from rlver.components.domain.printable import one_line
from rlver.components.domain.thinking import system_prompt
from rlver.components.policy.chat import ChatFormat
from rlver.components.policy.load import load_policy
from rlver.components.policy.transformers_sampler import TransformersSampler
from rlver.components.settings.settings import Settings
from rlver.tasks.runtime import environment
from rlver.tasks.runtime.chat_server.replies import ReplyQueue, prompt_room
from rlver.tasks.runtime.chat_server.routes import ChatServer, chat_guard
from rlver.tasks.runtime.guard import hosts_of
from rlver.tasks.runtime.language import ENGLISH, language_of
from rlver.tasks.runtime.policies import candidate, refuse_served
from rlver.tasks.runtime.servers import free_port
from rlver.tasks.runtime.web import Announced, check_host, config_of

MOST_CONTEXT = 8192  # tokens, unless more is asked for: what is read stays in memory
_STOPS_WITHIN_S = 15


def must_be_allowed(host: str, key: str | None) -> None:
    """Raise ValueError for an address that would be open to a network without a key."""
    check_host(host)
    if key is None and not ip_address(host).is_loopback:
        raise ValueError(f"--host {host} can be reached from other machines: set RLVER_SERVE_KEY, which clients must then send")


def reply_queue(location: str, settings: Settings, context: int | None, adds_system: bool, say: Callable[[str], None]) -> ReplyQueue:
    """The policy at `location`, loaded. The system message is in the language of the personas of `settings`. Raises ValueError in one line."""
    language = language_of(settings, environment.project_root()) if adds_system else ENGLISH
    model, tokenizer = load_policy(location, may_open_thoughts=True)
    capacity = prompt_room(model, context, MOST_CONTEXT)
    sampler = TransformersSampler(model, tokenizer.eos_token_id, 1.0, 1.0, rows=1, capacity=capacity)
    sampler.start()  # what cannot be sampled is told before the server is up
    return ReplyQueue(sampler, ChatFormat(tokenizer, system_prompt(settings.policy.thinking, language)), adds_system, say)


def serve_policy(
    policy: str,
    settings: Settings,
    host: str,
    port: int,
    key: str | None,
    name: str | None,
    context: int | None,
    adds_system: bool,
    say: Callable[[str], None],
) -> None:
    """Answer until told to stop. Raises ValueError in one line for what cannot be served."""
    must_be_allowed(host, key)
    refuse_served(policy)
    port = free_port(port, host)
    found = candidate(policy, settings)
    model = name or found.name

    def say_line(line: str) -> None:
        say(one_line(line))

    say_line(f"loading {policy} …")
    replies = reply_queue(found.location, settings, context, adds_system, say_line)
    server = ChatServer(model, replies, int(datetime.now(UTC).timestamp()))
    shown = f"[{host}]" if ":" in host else host
    told = f"serving {model} at http://{shown}:{port}/v1    {'its key is RLVER_SERVE_KEY' if key else 'no key'}; Ctrl-C stops it"
    config = config_of(chat_guard(server.app(), hosts_of(host, port), key), host, port)
    config.timeout_graceful_shutdown = _STOPS_WITHIN_S
    Announced(config, lambda: say_line(told), replies.stop).run()
