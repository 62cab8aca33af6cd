import Foundation
import SanguineModel

/// Estimates how often a value really changes, and how long it may therefore be trusted.
///
/// Each completed fetch shows whether the value has changed since the previous one; this is called
/// a *look*. Changes are modelled as a Poisson process of rate λ, with the estimator of Cho and
/// Garcia-Molina, "Estimating Frequency of Change" (ACM Transactions on Internet Technology 3(3),
/// 2003), section 4.2: after *n* looks, *X* of which found a change, at a mean distance *I*,
///
///     λ = −ln((n − X + ½) / (n + ½)) / I
///
/// Here *n*, *X* and *n·I* are sums in which each look counts 5 % less than the next, so that the
/// estimate follows a source whose habits change. A value may then be trusted for
///
///     TTL = ¼ / λ, at most twice the longest time over which no change was seen,
///           after a change at most half the time within which it was seen,
///
/// clamped to the policy's range. With a quarter of the mean time between changes, a change was
/// missed by the end of the TTL with a probability of 1 − e^−¼ = 22 %. The bounds keep a few lucky
/// looks from being trusted for long, and make the client notice soon that a source becomes active:
/// the TTL at most doubles with each look, and each change halves it.
///
/// Invariants, checked after every event in debug builds:
///
/// 1. 0 ≤ X ≤ n ≤ 20, and all sums are finite and not negative.
/// 2. A TTL is within the requested range.
struct AdaptiveState: Sendable, Hashable {
    private var looks = 0.0
    private var changes = 0.0
    /// The sum of the seconds between looks.
    private var span = 0.0
    /// Half of the largest allowed TTL, in seconds.
    private var proven = 0.0
    private var lastLook: Timestamp?

    init() {}

    /// Records a completed fetch.
    ///
    /// The first one has nothing to compare with and only starts the count; so does one after the
    /// clock was set back. Do not record a value that the app itself has set.
    ///
    /// - Parameters:
    ///   - changed: Whether the value differs from the one before.
    ///   - now: When the fetch completed.
    mutating func fetchCompleted(changed: Bool, at now: Timestamp) {
        defer { checkInvariants() }
        guard let last = lastLook, last <= now else {
            lastLook = now
            return
        }
        lastLook = now
        var gap = Double((now - last).wholeMilliseconds) / 1_000
        proven = changed ? min(proven, gap / 4) : max(proven, gap)
        if changed, looks > 0 {
            // After a long absence, there is nearly always a change, which says little about when
            // it happened.
            gap = min(gap, EventLimits.adaptiveAbsence * span / looks)
        }
        let memory = EventLimits.adaptiveMemory
        looks = looks * memory + 1
        changes = changes * memory + (changed ? 1 : 0)
        span = span * memory + gap
    }

    /// Returns how long the value may be trusted.
    ///
    /// The range's lower bound until two fetches have completed.
    func ttl(within range: ClosedRange<Duration>) -> Duration {
        guard looks > 0 else { return range.lowerBound }
        let rate = changesPerSecond
        let wanted = rate > 0 ? EventLimits.adaptiveFraction / rate : .infinity
        let seconds = min(wanted, 2 * proven)
        // Compared as numbers first: a duration of that many seconds may not be representable.
        if seconds >= Self.seconds(range.upperBound) { return range.upperBound }
        if seconds <= Self.seconds(range.lowerBound) { return range.lowerBound }
        return .seconds(seconds)
    }

    /// The mean time between real changes; `nil` if none was seen.
    var meanTimeBetweenChanges: Duration? {
        let rate = changesPerSecond
        guard rate > 0, rate.isFinite, 1 / rate < 1e12 else { return nil }
        return .seconds(1 / rate)
    }

    private var changesPerSecond: Double {
        guard changes > 0 else { return 0 }
        guard span > 0 else { return .infinity }
        return -log((looks - changes + 0.5) / (looks + 0.5)) * looks / span
    }

    private static func seconds(_ duration: Duration) -> Double {
        Double(duration.components.seconds) + Double(duration.components.attoseconds) / 1e18
    }

    private func checkInvariants() {
        let most = 1 / (1 - EventLimits.adaptiveMemory) + 0.01
        assert(looks <= most && (0...looks).contains(changes))
        assert(span >= 0 && span.isFinite && proven >= 0 && proven.isFinite)
    }
}
