"""Every attack that is tried, by which tests, and with what result: the rows of docs/attacks.md.

``python tests/attack_table.py`` writes the table into the page; tests/unit/test_attack_table.py holds page, rows and
tests together. Add a row (or a test to a row) for every attack that somebody thinks of.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "attacks.md"
BEGIN, END = "<!-- attacks -->", "<!-- /attacks -->"
Result = Literal["refused", "without effect", "shown as text", "contained"]

FOLDER = "tests/integration"
HTTP = f"{FOLDER}/test_inbound/test_attacks.py"
REPORTS = f"{FOLDER}/test_inbound/test_inbound_callbacks.py"
HOOKS = f"{FOLDER}/test_inbound/test_inbound_webhooks.py"
LEASES = f"{FOLDER}/test_attacks_by_workers.py"
FOLLOWED = f"{FOLDER}/test_following.py"
ACTING = f"{FOLDER}/test_pages/test_pages_acting.py"
WALK = f"{FOLDER}/test_pages/test_pages_walk.py"
HOSTILE = f"{FOLDER}/test_sandbox_hostile.py"
TERMINAL = "tests/unit/test_terminal.py"
HARM = f"{FOLDER}/test_sandbox_harm.py"
MODELS = f"{FOLDER}/test_agents_misbehaving.py"
TOKENS = "tests/unit/outbound/test_oidc_verifier.py"
BODY = "tests/unit/outbound/test_callback_body.py"
FUZZ = "tests/unit/test_fuzz_corpora.py"
CHAIN = "tests/unit/test_supply_chain.py"


@dataclass(frozen=True, slots=True)
class Attack:
    """``by`` is the mechanism that stops it; ``tests`` name the file and the function. ``through``: what got through
    when it was first tried."""

    name: str
    result: Result
    by: str
    tests: tuple[str, ...]
    through: str = ""


def _in(file: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{file}::test_{name}" for name in names)


ATTACKS = (
    Attack(
        "forged pull request, commit, labels in a report",
        "without effect",
        "commit, number and labels are the relay's own record of the dispatch",
        _in(REPORTS, "what_the_echo_says_of_commit_number_and_labels_is_not_believed_and_a_label_set_later_is"),
    ),
    Attack(
        "forged conclusion",
        "refused",
        "a closed list of conclusions; the worst of a job's ends counts",
        _in(
            REPORTS,
            "a_wrong_field_is_named_before_anything_happens_and_the_token_stays_good",
            "two_legs_of_a_matrix_under_one_name_keep_the_worse_end",
        ),
    ),
    Attack(
        "a nightly about a commit that upstream does not have",
        "refused",
        "GitHub is asked, and no guess is made",
        _in(
            REPORTS,
            "a_commit_that_upstream_does_not_have_is_not_taken",
            "while_github_cannot_be_asked_nothing_is_believed_and_nothing_is_lost",
        ),
    ),
    Attack(
        "replay of a delivery, with the same or another body",
        "without effect",
        "the delivery's id is claimed once",
        _in(HTTP, "a_delivery_sent_again_with_another_body_changes_nothing")
        + _in(HOOKS, "a_delivery_sent_again_or_twice_at_once_is_dispatched_once"),
    ),
    Attack(
        "replay of a token", "refused", "a token is good for one body", _in(REPORTS, "a_token_is_good_for_one_body")
    ),
    Attack(
        "algorithm confusion (none, HMAC of the public key), unknown keys, keys that the token brings",
        "refused",
        "RS256 alone, with keys of configured issuers alone",
        _in(HTTP, "a_token_by_another_algorithm_or_key_is_refused")
        + _in(TOKENS, "only_rs256_is_taken_and_nothing_is_fetched_for_less", "another_key_with_a_known_id_is_refused"),
    ),
    Attack(
        "foreign audience, foreign issuer, times in the past and future",
        "refused",
        "all claims are required",
        _in(HTTP, "a_token_by_another_algorithm_or_key_is_refused") + _in(REPORTS, "clocks_may_differ_by_a_minute"),
    ),
    Attack(
        "another repository's run id",
        "refused",
        "a token's run speaks for itself; jobs belong to one dispatch",
        _in(HTTP, "another_repositorys_run_cannot_be_taken_over")
        + _in(REPORTS, "a_run_speaks_for_itself_alone_and_from_where_the_allowlist_lets_it"),
    ),
    Attack(
        "a fork's workflow",
        "refused",
        "a path alone means the token's own repository; refs are whole names",
        _in(HTTP, "a_fork_speaks_for_itself_and_not_for_its_parent")
        + _in(BODY, "who_may_report_by_the_allowlists_refs_and_workflows"),
        "where the allowlist named `workflows: [.github/workflows/ci.yml]`, a workflow at that path in anybody's "
        "repository, called from the downstream's own, was taken for the downstream's",
    ),
    Attack(
        "a name that only looks like a listed one: homoglyphs, folding, invisible characters",
        "refused",
        "names are ASCII by one rule, in tokens, webhooks and lists",
        _in(
            HTTP,
            "a_name_that_only_looks_like_a_listed_one_speaks_for_nobody",
            "a_hostile_allowlist_is_refused_by_its_place_and_the_last_good_one_stays",
        ),
    ),
    Attack(
        "one name in two spellings of case",
        "without effect",
        "names are compared without case",
        _in(
            HTTP,
            "case_makes_no_second_repository",
            "a_hostile_allowlist_is_refused_by_its_place_and_the_last_good_one_stays",
        ),
    ),
    Attack(
        "whoever takes a listed repository's old name",
        "without effect",
        "GitHub's number counts, not the name",
        _in(HOOKS, "a_renamed_repository_keeps_its_entry_and_whoever_takes_its_old_name_gets_nothing"),
    ),
    Attack(
        "webhook without a secret, with a stale one, signed for another body",
        "refused",
        "the signature is checked before anything is read",
        _in(HTTP, "a_webhook_that_is_signed_by_nobody_or_by_an_old_secret_is_not_read")
        + _in(HOOKS, "a_rotated_secret_needs_no_restart_and_what_it_refused_is_asked_for_again"),
    ),
    Attack(
        "oversized bodies",
        "refused",
        "counted while they are read; nothing is kept past the limit",
        _in(HTTP, "a_body_over_the_limit_is_refused_by_what_it_says_and_by_what_it_is")
        + _in(REPORTS, "a_body_of_megabytes_is_413_and_an_echo_of_a_megabyte_is_not_kept")
        + _in(f"{FOLDER}/test_worker_api_http.py", "a_body_over_its_limit_is_not_read"),
    ),
    Attack(
        "zip bombs",
        "refused",
        "no body is unpacked but a trace, which may be so large and no larger",
        _in(HTTP, "a_packed_body_is_not_unpacked") + _in(FOLLOWED, "what_cannot_be_is_refused_and_leaves_nothing"),
    ),
    Attack(
        "deeply nested, non-UTF-8, endless numbers, NaN",
        "refused",
        "the parser's own limits, answered as 400",
        _in(HTTP, "a_body_made_to_break_the_parser_is_a_400_and_the_relay_goes_on")
        + _in(LEASES, "a_workers_report_fills_neither_memory_nor_the_database")
        + _in(FUZZ, "what_strangers_send_is_understood_or_refused_by_name"),
    ),
    Attack(
        "requests of every shape that the API's description allows, and does not",
        "refused",
        "every route answers by name",
        _in(f"{FOLDER}/test_inbound/test_openapi_fuzz.py", "the_description_holds_no_request_that_breaks_the_relay"),
    ),
    Attack(
        "a report that leaves out what it may",
        "shown as text",
        "pages read optional parts as optional",
        _in(HTTP, "a_report_that_leaves_out_what_it_may_breaks_no_page"),
        "a triage verdict without `suspected_upstream` made the run's page a 500 for everybody",
    ),
    Attack(
        "YAML bombs and tags in the allowlist",
        "refused",
        "nodes only, no objects; the last good list stays",
        _in(HTTP, "a_hostile_allowlist_is_refused_by_its_place_and_the_last_good_one_stays")
        + _in("tests/unit/inbound/test_allowlist_grammar.py", "tags_make_no_objects"),
    ),
    Attack(
        "YAML bombs and tags in configs",
        "refused",
        "size, depth and unfolded nodes are bounded before values are read",
        _in(FUZZ, "a_config_made_to_break_the_loader_is_refused_by_its_place"),
        "a file of many different mistakes cost the square of their number (8,000 lines: 6.8 s of CPU, 4 MB: hours); "
        "problems are now kept in a set (0.3 s)",
    ),
    Attack(
        "path traversal in names of tests",
        "refused",
        "a result must be of a test that the shard has",
        _in(LEASES, "a_test_that_the_shard_does_not_have_is_not_stored_whatever_its_path"),
    ),
    Attack(
        "path traversal in artifact and log names",
        "without effect",
        "names in the store are made of the database's ids and numbers",
        _in(LEASES, "a_log_goes_nowhere_but_below_its_lease") + _in(HOSTILE, "a_log_cannot_be_led_elsewhere"),
    ),
    Attack(
        "path traversal in addresses",
        "refused",
        "what is served is looked up by name",
        _in(HTTP, "a_path_in_an_address_leads_out_of_nothing"),
    ),
    Attack(
        "links in a tree that lead out of it; files laid over torch from elsewhere",
        "without effect",
        "links are no files of a tree",
        _in(
            "tests/unit/mirror/test_git_mirror.py",
            "links_and_submodules_are_not_files_of_a_tree",
            "urls_that_could_run_something_are_refused",
        )
        + _in("tests/unit/worker/test_worker_overlay.py", "a_link_in_the_tree_leads_nowhere"),
    ),
    Attack(
        "SSRF by details, artifact, log and provider URLs",
        "without effect",
        "addresses of a report are asked by nobody; keys come from configured issuers, without redirects",
        _in(HTTP, "addresses_of_a_report_are_never_asked_and_lead_only_where_the_token_is_from")
        + _in(REPORTS, "a_flood_without_good_tokens_reaches_neither_github_nor_the_database"),
    ),
    Attack(
        "`javascript:` links, `</script>`, markup in titles, names, logs",
        "shown as text",
        "escaping, a policy without inline script, https links alone",
        _in(WALK, "hostile_strings_stay_strings_on_every_page")
        + _in(f"{FOLDER}/test_pages/test_pages_render.py", "hostile_text_stays_text_everywhere"),
    ),
    Attack(
        "ANSI and other control sequences in logs",
        "shown as text",
        "colours become classes, all else is left out",
        _in(f"{FOLDER}/test_pages/test_pages_log.py", "what_a_log_holds_stays_text_and_colours_are_classes")
        + _in("tests/unit/pages/test_pages_words.py", "no_control_character_comes_through"),
    ),
    Attack(
        "markdown and mentions in check runs and comments",
        "shown as text",
        "upstream's text is made inert",
        _in("tests/unit/outbound/test_check_output.py", "hostile_text_does_nothing"),
    ),
    Attack(
        "hostile text in downloads and feeds",
        "shown as text",
        "written by libraries of the format",
        _in(f"{FOLDER}/test_pages/test_pages_downloads.py", "hostile_text_stays_text_in_files")
        + _in(f"{FOLDER}/test_pages/test_pages_feeds.py", "whatever_people_write_they_stay_well_formed"),
    ),
    Attack(
        "CSRF",
        "refused",
        "the session's token in the form, one of our pages, SameSite",
        _in(ACTING, "a_form_needs_a_session_its_token_and_one_of_our_pages"),
    ),
    Attack(
        "session fixation, stolen and changed cookies",
        "refused",
        "a new session at each sign-in, kept as a digest",
        _in(ACTING, "a_session_is_new_at_each_sign_in_and_over_at_its_end", "cookies_are_for_this_site_and_no_script"),
    ),
    Attack(
        "OAuth: foreign state, a code twice, redirects elsewhere",
        "refused",
        "state and PKCE tie it to the browser",
        _in(
            ACTING,
            "a_way_back_that_this_browser_did_not_begin_is_refused",
            "a_code_counts_once_and_saying_no_is_no_error",
            "nobody_is_sent_elsewhere",
        ),
    ),
    Attack(
        "acting on somebody else's downstream",
        "refused",
        "rights are looked up at every form",
        _in(
            ACTING,
            "an_operator_sends_again_and_drops_and_others_do_not",
            "quarantine_is_for_the_oncalls_of_this_device",
        ),
    ),
    Attack(
        "rate-limit evasion by headers",
        "without effect",
        "who asks is who connects, unless proxies are named",
        _in(LEASES, "another_address_in_a_header_is_not_another_reader"),
        "the web server believed `X-Forwarded-For` of everybody on its own machine, so each request could be another "
        "reader; it now believes nobody whom `FORWARDED_ALLOW_IPS` does not name",
    ),
    Attack(
        "floods: reports, tokens with unknown keys, many names",
        "refused",
        "a bucket a downstream, bounded in number",
        _in(
            REPORTS,
            "what_is_refused_for_its_number_is_not_counted",
            "a_flood_without_good_tokens_reaches_neither_github_nor_the_database",
        )
        + _in("tests/unit/inbound/test_token_buckets.py", "it_remembers_no_more_names_than_it_may"),
    ),
    Attack(
        "SQL injection",
        "without effect",
        "bound parameters everywhere",
        _in(HTTP, "sql_in_an_address_or_a_name_is_text"),
    ),
    Attack(
        "GraphQL injection",
        "without effect",
        "the relay speaks none",
        _in(HTTP, "graphql_has_no_door_and_no_query_is_made_of_text"),
    ),
    Attack(
        "secrets in answers, errors, logs, rows",
        "without effect",
        "settings keep them wrapped; logs hide them by name",
        _in(HTTP, "no_secret_is_in_an_answer_a_log_or_a_row")
        + _in(
            f"{FOLDER}/test_observed.py",
            "secrets_are_not_logged_under_their_names",
            "one_event_as_trace_logs_and_audit",
        ),
    ),
    Attack(
        "secrets and state in Celery messages",
        "without effect",
        "a message carries ids",
        _in(HTTP, "messages_of_the_broker_carry_ids_and_nothing_else"),
    ),
    Attack(
        "secrets in transcripts of models",
        "without effect",
        "scrubbed on the way out and in",
        _in(
            MODELS,
            "what_strangers_write_reaches_the_model_marked_as_data_and_without_secrets",
            "a_model_that_misbehaves_costs_no_test_no_secret_and_no_more_than_its_time",
        ),
    ),
    Attack(
        "secrets in the environment of tests; sandbox escape to files, network, processes, sockets, rights",
        "refused",
        "an environment built up from nothing, namespaces, seccomp",
        _in(HOSTILE, "it_is_refused") + _in(f"{FOLDER}/test_runner_sandbox.py", "the_workers_secrets_cannot_be_read"),
    ),
    Attack(
        "memory of no process (memfd, System V), full temporary folders, a stopped parent, bombs of names",
        "contained",
        "refused or cleared; a name that cannot be shown does not run",
        _in(HARM, "every_variant_is_as_if_it_had_been_alone", "names_that_cannot_be_shown_do_not_run_and_are_told_of"),
        "no limit saw memory that is no process's; a full /tmp and a long name took other variants with them",
    ),
    Attack(
        "control characters in messages and names, for the terminal of who runs `relay run`",
        "shown as text",
        "one console writes to terminals, and replaces them",
        (
            f"{TERMINAL}::test_texts_hold_no_control_characters_wherever_they_stand",
            f"{TERMINAL}::test_nobody_makes_another_console",
        ),
        "they reached the terminal",
    ),
    Attack(
        "a class that ends or blocks the process that lists its tests",
        "contained",
        "the file is blamed, and the others are collected without it",
        _in(HARM, "a_file_that_ends_or_blocks_the_listing_of_its_tests_costs_itself"),
        "the shard could not be run, with all other files in it",
    ),
    Attack(
        "a test lowers the limits of the process that the next tests come from",
        "refused",
        "limits and scheduling are set for oneself alone (seccomp)",
        _in(HARM, "every_variant_is_as_if_it_had_been_alone"),
        "the next batch could not be started, and its first test was blamed",
    ),
    Attack(
        "a process that a test left running speaks for the next test",
        "refused",
        "processes that are left end the batch, and what is said after its end counts for nothing",
        _in(HARM, "what_a_test_left_running_cannot_speak_for_the_next"),
        "an orphan held the pipe, and was believed in turn",
    ),
    Attack(
        "a file whose import leads the runner's look at memory elsewhere",
        "refused",
        "a collector is believed its number once, before it imports a file",
        _in(HARM, "a_file_cannot_have_its_memory_looked_for_elsewhere"),
        "the cap on memory was that of one process",
    ),
    Attack(
        "a file whose import changes op_db, builtins or the default dtype for others",
        "without effect",
        "it is imported by a collector of its own",
        _in(HARM, "what_a_file_changes_when_it_is_imported_is_changed_for_itself_only"),
        "tests of other files ran under it",
    ),
    Attack(
        "fork bombs, memory, floods of output, killing the parent, daemons",
        "contained",
        "limits a process, one variant is lost",
        _in(f"{FOLDER}/test_runner_broken.py", "it_costs_itself_only", "nothing_of_it_lives_on"),
    ),
    Attack(
        "forged results",
        "refused",
        "the runner's parent writes outcomes; a child speaks of its own variant alone",
        _in(HOSTILE, "a_forged_result_is_an_error_and_nothing_else_is_believed")
        + _in(LEASES, "a_workers_report_fills_neither_memory_nor_the_database"),
    ),
    Attack(
        "forged kernel counts",
        "without effect",
        "counts of untrusted code are evidence for its own run alone",
        _in(HOSTILE, "forged_kernels_are_no_evidence"),
    ),
    Attack(
        "forged traces of what tests run: by a change's code, a test, a worker, in the store",
        "refused",
        "runs of trunk alone; a test speaks of itself, a lease of its tests, in bounds; kept by content",
        _in(
            FOLLOWED,
            "no_change_of_anybody_is_followed_whatever_its_shard_says",
            "what_cannot_be_is_refused_and_leaves_nothing",
            "a_table_that_somebody_changed_in_the_store_is_not_used",
        )
        + _in(f"{FOLDER}/test_runner_follow.py", "a_test_that_tells_what_cannot_be_spoils_itself_alone"),
    ),
    Attack(
        "poisoned caches: an answer of a model about what the change wrote; what a test leaves behind",
        "without effect",
        "caches by content, never with sight of the change; a fresh fork for what changed its process",
        _in(MODELS, "answers_are_kept_by_content_but_not_with_sight_of_what_the_change_touches")
        + _in(f"{FOLDER}/test_runner_broken.py", "what_a_test_leaves_changed_does_not_reach_the_next")
        + _in("tests/unit/worker/test_worker_trees.py", "a_bad_pack_leaves_nothing"),
    ),
    Attack(
        "poisoned history",
        "without effect",
        "only trunk teaches",
        _in(f"{FOLDER}/test_exploring.py", "only_trunk_teaches")
        + _in(
            MODELS,
            "what_no_trusted_run_was_seen_to_leave_idle_is_not_asked_about",
            "tests_that_the_change_has_a_hand_in_are_not_asked_about",
        ),
    ),
    Attack(
        "prompt injection",
        "without effect",
        "data between marks; a drop needs proof that the source holds",
        _in(
            MODELS,
            "what_strangers_write_reaches_the_model_marked_as_data_and_without_secrets",
            "an_obedient_model_is_caught_by_the_tests_whose_answer_is_known",
            "a_critic_that_nods_at_everything_is_not_believed",
        )
        + _in("tests/unit/agents/test_agents_pure.py", "data_cannot_close_its_own_marks"),
    ),
    Attack(
        "an untrusted author's code on our workers",
        "refused",
        "a label by somebody who may, or it waits",
        _in("tests/unit/inbound/test_routing_policy.py", "an_untrusted_authors_code_waits_for_the_label")
        + _in(HOSTILE, "strict_trust_refuses_where_something_lacks"),
    ),
    Attack(
        "a lease token used for another lease, after its end, or in part",
        "refused",
        "a token a lease, compared with the shard's own",
        _in(LEASES, "a_lease_is_good_for_its_own_shard_alone", "a_lease_that_is_over_changes_nothing")
        + _in(f"{FOLDER}/test_leases.py", "a_worker_that_returns_after_its_lease_was_given_away_changes_nothing"),
    ),
    Attack(
        "dependency confusion",
        "refused",
        "every package by version and hash, from one index, our own never asked for",
        _in(
            CHAIN,
            "whatever_the_project_names_is_pinned_by_version_and_hash",
            "no_installation_looks_a_name_up_in_two_places",
            "our_own_name_is_never_asked_for",
        ),
    ),
)


@cache
def functions(file: str) -> frozenset[str]:
    """Names of the test functions of a file."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def missing(attack: Attack) -> list[str]:
    """Tests of a row that are not there."""
    found = []
    for test in attack.tests:
        file, _, name = test.partition("::")
        if not (ROOT / file).is_file() or name not in functions(file):
            found.append(test)
    return found


def table() -> str:
    """The rows as markdown, and below them what got through when it was first tried."""
    lines = ["| Attack | Result | By | Tried by |", "|---|---|---|---|"]
    for one in ATTACKS:
        tests = "<br>".join(f"`{t.rpartition('/')[2]}`" for t in one.tests)
        mark = " (got through at first)" if one.through else ""
        lines.append(f"| {one.name} | {one.result}{mark} | {one.by} | {tests} |")
    lines += ["", "What got through on the first try, and what stops its kind now:", ""]
    lines += [f"* **{one.name}**: {one.through}. Now: {one.by}." for one in ATTACKS if one.through]
    return "\n".join(lines)


def page() -> str:
    """The page with the table as it comes out now. ValueError where it has no place for it."""
    text = PAGE.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE}: no {BEGIN} … {END}")
    return f"{before}{begin}\n{table()}\n{end}{after}"


if __name__ == "__main__":
    gone = [test for one in ATTACKS for test in missing(one)]
    if gone:
        sys.exit("no such test: " + ", ".join(gone))
    PAGE.write_text(page(), encoding="utf-8")
