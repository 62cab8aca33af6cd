import SanguineModel

/// A time for which a purchase gives the plan: one of a product without an end of its own, such as
/// a non-renewing subscription.
///
/// The passes of an account add up: each one begins at its purchase, or when the pass before it
/// ends. So their order is that of the purchases, not that in which they become known.
struct PlanPass: Codable, Hashable, Sendable {
    /// The largest number of passes of an account that add up: 256.
    ///
    /// A further one counts from its own purchase.
    static let limit = 256
    /// The time for which passes that are over are kept, because another one that was bought
    /// earlier may become known: 90 days.
    static let kept = Duration.seconds(90 * 86_400)

    /// The time of the purchase.
    var boughtAt: Timestamp
    /// The duration of all bought units.
    var seconds: Int64
    /// The refunded part in milliunits of a percent.
    var refundedPart: Int64

    /// The duration without the refunded part, rounded in the buyer's favor.
    var duration: Duration {
        .seconds(seconds - seconds * refundedPart / AppStoreTransaction.wholePart)
    }

    /// The end of the pass if there is no other one.
    var ownEnd: Timestamp { boughtAt + duration }

    /// Passes that follow each other without a gap.
    private struct Run {
        var ids: [String]
        var endsAt: Timestamp
    }

    private static func runs(of passes: [String: PlanPass]) -> [Run] {
        var runs: [Run] = []
        let order = passes.sorted { ($0.value.boughtAt, $0.key) < ($1.value.boughtAt, $1.key) }
        for (id, pass) in order {
            if let last = runs.last, pass.boughtAt <= last.endsAt {
                runs[runs.count - 1].ids.append(id)
                runs[runs.count - 1].endsAt = last.endsAt + pass.duration
            } else {
                runs.append(Run(ids: [id], endsAt: pass.ownEnd))
            }
        }
        return runs
    }

    /// Returns the time for which passes together give the plan; `nil` for none.
    static func term(of passes: [String: PlanPass]) -> PlanTerm? {
        runs(of: passes).last.map { PlanTerm(endsAt: $0.endsAt) }
    }

    /// Returns the passes without those that are over and no longer kept.
    static func current(_ passes: [String: PlanPass], at now: Timestamp) -> [String: PlanPass] {
        var passes = passes
        for run in runs(of: passes) where run.endsAt + kept <= now {
            for id in run.ids { passes[id] = nil }
        }
        return passes
    }
}
