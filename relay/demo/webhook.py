"""The demo's ``pull_request`` webhook: GitHub's real shape with values of our own, signed like GitHub's."""

from __future__ import annotations

import hashlib
import hmac
import json
import uuid
from typing import Any

from relay.demo.upstream import DemoUpstream

API = "https://api.github.com"
MADE = "2026-11-03T14:31:07Z"


def sign(secret: str, body: bytes) -> str:
    """The value of ``X-Hub-Signature-256`` for the exact bytes of ``body``."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def opened_event(
    upstream: DemoUpstream, repo: str = "pytorch/pytorch", *, secret: str, delivery: str | None = None
) -> tuple[dict[str, str], bytes]:
    """-> (headers, body) of the PR's ``opened`` event. ``delivery`` defaults to a new id."""
    pull = pull_request(upstream, repo)
    body = json.dumps(
        {
            "action": "opened",
            "number": upstream.pr["number"],
            "pull_request": pull,
            "repository": _repo(repo),
            "organization": _organization(repo.split("/")[0]),
            "installation": {"id": 5_000_001, "node_id": "MDIzOkludGVncmF0aW9uNTAwMDAwMQ=="},
            "sender": _user(upstream.pr["author"]),
        },
        ensure_ascii=False,
        separators=(",", ":"),
    ).encode()
    headers = {
        "Accept": "*/*",
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/demo",
        "X-GitHub-Delivery": delivery or str(uuid.uuid4()),
        "X-GitHub-Event": "pull_request",
        "X-GitHub-Hook-ID": "424242001",
        "X-GitHub-Hook-Installation-Target-ID": "424242",
        "X-GitHub-Hook-Installation-Target-Type": "integration",
        "X-Hub-Signature-256": sign(secret, body),
    }
    return headers, body


def pull_request(upstream: DemoUpstream, repo: str = "pytorch/pytorch") -> dict[str, Any]:
    """The pull request as the webhook and ``GET /repos/{repo}/pulls/{n}`` have it."""
    pr = upstream.pr
    number, author = pr["number"], pr["author"]
    url, page = f"{API}/repos/{repo}/pulls/{number}", f"https://github.com/{repo}/pull/{number}"
    issue = f"{API}/repos/{repo}/issues/{number}"
    fork = _repo(f"{author}/{repo.split('/')[1]}", fork=True)
    links = {
        "self": url,
        "html": page,
        "issue": issue,
        "comments": f"{issue}/comments",
        "review_comments": f"{url}/comments",
        "review_comment": f"{API}/repos/{repo}/pulls/comments{{/number}}",
        "commits": f"{url}/commits",
        "statuses": f"{API}/repos/{repo}/statuses/{upstream.head_sha}",
    }
    return {
        "url": url,
        "id": 2_900_000_000 + number,
        "node_id": f"PR_demo{number}",
        "html_url": page,
        "diff_url": f"{page}.diff",
        "patch_url": f"{page}.patch",
        "issue_url": issue,
        "number": number,
        "state": "open",
        "locked": False,
        "title": pr["title"],
        "user": _user(author),
        "body": pr["body"],
        "created_at": MADE,
        "updated_at": MADE,
        "closed_at": None,
        "merged_at": None,
        "merge_commit_sha": None,
        "assignee": None,
        "assignees": [],
        "requested_reviewers": [],
        "requested_teams": [],
        "labels": [],
        "milestone": None,
        "commits_url": links["commits"],
        "review_comments_url": links["review_comments"],
        "review_comment_url": links["review_comment"],
        "comments_url": links["comments"],
        "statuses_url": links["statuses"],
        "head": {
            "label": f"{author}:{pr['head_ref']}",
            "ref": pr["head_ref"],
            "sha": upstream.head_sha,
            "user": _user(author),
            "repo": fork,
        },
        "base": {
            "label": f"{repo.split('/')[0]}:{pr['base_ref']}",
            "ref": pr["base_ref"],
            "sha": upstream.base_sha,
            "user": _user(repo.split("/")[0], "Organization"),
            "repo": _repo(repo),
        },
        "_links": {name: {"href": href} for name, href in links.items()},
        "author_association": pr["author_association"],
        "auto_merge": None,
        "active_lock_reason": None,
        "draft": False,
        "merged": False,
        "mergeable": None,
        "rebaseable": None,
        "mergeable_state": "unknown",
        "merged_by": None,
        "comments": 0,
        "review_comments": 0,
        "maintainer_can_modify": True,
        "commits": pr["commits"],
        "additions": pr["additions"],
        "deletions": pr["deletions"],
        "changed_files": pr["changed_files"],
    }


def _number(text: str) -> int:
    """A stable id for a name."""
    return int.from_bytes(hashlib.sha256(text.casefold().encode()).digest()[:3], "big") + 1_000_000


def _user(login: str, kind: str = "User") -> dict[str, Any]:
    api, number = f"{API}/users/{login}", _number(login)
    templates = {
        "followers": "followers",
        "following": "following{/other_user}",
        "gists": "gists{/gist_id}",
        "starred": "starred{/owner}{/repo}",
        "subscriptions": "subscriptions",
        "organizations": "orgs",
        "repos": "repos",
        "events": "events{/privacy}",
        "received_events": "received_events",
    }
    return {
        "login": login,
        "id": number,
        "node_id": f"U_demo{number}",
        "avatar_url": f"https://avatars.githubusercontent.com/u/{number}?v=4",
        "gravatar_id": "",
        "url": api,
        "html_url": f"https://github.com/{login}",
        **{f"{name}_url": f"{api}/{tail}" for name, tail in templates.items()},
        "type": kind,
        "user_view_type": "public",
        "site_admin": False,
    }


def _organization(login: str) -> dict[str, Any]:
    api, number = f"{API}/orgs/{login}", _number(login)
    return {
        "login": login,
        "id": number,
        "node_id": f"O_demo{number}",
        "url": api,
        "repos_url": f"{api}/repos",
        "events_url": f"{api}/events",
        "hooks_url": f"{api}/hooks",
        "issues_url": f"{api}/issues",
        "members_url": f"{api}/members{{/member}}",
        "public_members_url": f"{api}/public_members{{/member}}",
        "avatar_url": f"https://avatars.githubusercontent.com/u/{number}?v=4",
        "description": "",
    }


REPO_URLS = {
    "forks": "forks",
    "keys": "keys{/key_id}",
    "collaborators": "collaborators{/collaborator}",
    "teams": "teams",
    "hooks": "hooks",
    "issue_events": "issues/events{/number}",
    "events": "events",
    "assignees": "assignees{/user}",
    "branches": "branches{/branch}",
    "tags": "tags",
    "blobs": "git/blobs{/sha}",
    "git_tags": "git/tags{/sha}",
    "git_refs": "git/refs{/sha}",
    "trees": "git/trees{/sha}",
    "statuses": "statuses/{sha}",
    "languages": "languages",
    "stargazers": "stargazers",
    "contributors": "contributors",
    "subscribers": "subscribers",
    "subscription": "subscription",
    "commits": "commits{/sha}",
    "git_commits": "git/commits{/sha}",
    "comments": "comments{/number}",
    "issue_comment": "issues/comments{/number}",
    "contents": "contents/{+path}",
    "compare": "compare/{base}...{head}",
    "merges": "merges",
    "archive": "{archive_format}{/ref}",
    "downloads": "downloads",
    "issues": "issues{/number}",
    "pulls": "pulls{/number}",
    "milestones": "milestones{/number}",
    "notifications": "notifications{?since,all,participating}",
    "labels": "labels{/name}",
    "releases": "releases{/id}",
    "deployments": "deployments",
}


def _repo(full_name: str, fork: bool = False) -> dict[str, Any]:
    owner, name = full_name.split("/")
    api, page, number = f"{API}/repos/{full_name}", f"https://github.com/{full_name}", _number(full_name)
    return {
        "id": number,
        "node_id": f"R_demo{number}",
        "name": name,
        "full_name": full_name,
        "private": False,
        "owner": _user(owner, "User" if fork else "Organization"),
        "html_url": page,
        "description": "A small upstream, made on the spot",
        "fork": fork,
        "url": api,
        **{f"{key}_url": f"{api}/{tail}" for key, tail in REPO_URLS.items()},
        "created_at": "2016-08-13T05:26:41Z",
        "updated_at": MADE,
        "pushed_at": MADE,
        "git_url": f"git://github.com/{full_name}.git",
        "ssh_url": f"git@github.com:{full_name}.git",
        "clone_url": f"{page}.git",
        "svn_url": page,
        "homepage": None,
        "size": 1024,
        "stargazers_count": 0,
        "watchers_count": 0,
        "language": "Python",
        "has_issues": True,
        "has_projects": True,
        "has_downloads": True,
        "has_wiki": True,
        "has_pages": False,
        "has_discussions": False,
        "forks_count": 0,
        "mirror_url": None,
        "archived": False,
        "disabled": False,
        "open_issues_count": 1,
        "license": None,
        "allow_forking": True,
        "is_template": False,
        "web_commit_signoff_required": False,
        "topics": [],
        "visibility": "public",
        "custom_properties": {},
        "forks": 0,
        "open_issues": 1,
        "watchers": 0,
        "default_branch": "main",
    }
