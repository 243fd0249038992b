"""The page of the agreement study: matrices with and without naive samplers, and who was joined."""

from collections.abc import Mapping, Sequence

from .... import __version__
from ...workdir.joined import JoinedArm
from ...workdir.plan import StudyPlan
from ..collect import command_line
from ..data import Bank, Provenance, ReportData
from ..page import Record, Section
from .agreement_tables import (
    agreement,
    agreement_finding,
    agreement_table,
    generators_table,
    titled,
)
from .correlation_figures import correlation_figure


def agreement_data(plan: StudyPlan, arms: Sequence[JoinedArm]) -> ReportData:
    """Title, lead, caveats and provenance of the study; its arms are no rows of a profile."""
    return ReportData(
        title="dlmeval agreement",
        arms=(),
        lead=(f"{len(arms)} generators from {len(plan.config['workdirs'])} workdirs.",),
        caveats=("Few generators leave correlations wide open: three points always look orderly.",),
        provenance=Provenance(
            command=command_line(plan),
            config=plan.config,
            banks=tuple(
                Bank(f"{arm.label} seed {seed}", digest[:16], digest, arm.metrics["gen_ppl"].n)
                for arm in arms
                for seed, digest in arm.digests.items()
            ),
            versions={"dlmeval": __version__},
        ),
    )


def agreement_page(
    data: ReportData, arms: Sequence[JoinedArm], directions: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[Section, ...]]:
    """Findings and sections.

    Args:
        data: of `agreement_data`.
        arms: at least one generator.
        directions: {column: "up" | "down"} of the columns that are correlated.
    """
    every = agreement(arms, directions, naive=True)
    trained = agreement(arms, directions, naive=False)
    assert every is not None
    panels = {"all generators": titled(every)}
    if trained is not None:
        panels["without naive samplers"] = titled(trained)
    figure = correlation_figure(
        panels,
        name="agreement",
        caption="Spearman correlations of columns over generators, turned so that higher is"
        " better: blue columns prefer the same generators.",
    )
    sections = (
        Section("Agreement", (figure, agreement_table(every, trained))),
        Section("Generators", (generators_table(arms),)),
        Section("How this was made", (Record(data.provenance, ("tables/agreement.csv",)),)),
    )
    return (agreement_finding(every, trained),), sections
