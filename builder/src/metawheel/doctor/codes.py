"""All rules, in one place. A code never changes its meaning, and is never used again."""

from __future__ import annotations

from metawheel.doctor import rules_builds as builds
from metawheel.doctor import rules_indexes as indexes
from metawheel.doctor import rules_locks as locks
from metawheel.doctor import rules_requirements as requirements
from metawheel.doctor import rules_together as together
from metawheel.doctor.model import Rule

_E, _W = "error", "warning"

RULES: tuple[Rule, ...] = tuple(
    Rule(code=code, title=title, severity=severity, check=check)
    for code, title, severity, check in (
        ("MW101", "no wheel for a target", _E, builds.no_wheel),
        ("MW102", "a labelled build where upstream has none", _E, builds.labelled_on_mac),
        ("MW103", "a CPU build where an accelerator is meant", _E, builds.cpu_where_accelerated),
        ("MW104", "an accelerator's build where the CPU is meant", _W, builds.accelerated_where_cpu),
        ("MW105", "a companion of another backend", _E, builds.companion_backend),
        ("MW106", "a companion of another version", _E, builds.companion_version),
        ("MW107", "jax, jaxlib and plugin differ", _E, builds.jax_plugin),
        ("MW108", "a hole in markers", _W, requirements.hole),
        ("MW109", "two versions at once", _E, together.two_versions),
        ("MW110", "two wrappers of one project", _E, together.two_wrappers),
        ("MW111", "two packages own one module", _E, together.shared_module),
        ("MW112", "a build for another accelerator", _E, builds.other_accelerator),
        ("MW201", "a loose pin", _W, requirements.loose_pin),
        ("MW202", "arbitrary equality", _W, requirements.arbitrary_equality),
        ("MW203", "an ordered comparison with a label", _E, requirements.ordered_label),
        ("MW204", "an exclusion by label", _W, requirements.excluded_label),
        ("MW205", "not a requirement", _E, requirements.unparsable),
        ("MW206", "a wheel by its address", _W, requirements.direct_url),
        ("MW207", "an extra spelled in two ways", _W, requirements.extra_spelling),
        ("MW208", "a split that uv cannot lock", _E, requirements.uv_split),
        ("MW209", "a marker that Windows does not meet", _W, requirements.windows_machine),
        ("MW301", "an explicit index hides what is required in turn", _E, indexes.explicit_source),
        ("MW302", "a source that is ignored", _E, indexes.unused_source),
        ("MW303", "a label without an index", _E, indexes.label_without_index),
        ("MW304", "a label that the index does not have", _E, indexes.label_of_other_index),
        ("MW305", "a public index beside our names", _E, indexes.public_in_front),
        ("MW306", "a page that upstream writes no more", _E, indexes.frozen_page),
        ("MW307", "a page for an index, or the reverse", _E, indexes.page_and_index),
        ("MW308", "a torch-backend that is overridden", _W, indexes.backend_overridden),
        ("MW309", "an index that a dependency names", _W, indexes.index_of_dependency),
        ("MW310", "an index that pip drops", _W, indexes.dropped),
        ("MW401", "missing hashes", _E, locks.missing_hashes),
        ("MW402", "a lock that is out of date", _E, locks.stale_lock),
        ("MW403", "a hash that upstream's file has not", _E, locks.other_hash),
        ("MW404", "a yanked build", _W, locks.yanked),
        ("MW501", "an unmet requirement in the environment", _E, locks.unmet),
    )
)
CODES = tuple(rule.code for rule in RULES)
