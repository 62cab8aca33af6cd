import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// The decisions of a cache entry, tested without a cache, a network or a clock.
@Suite("Entry state", .bounded)
struct EntryStateTests {
    private let now = Timestamp(millisecondsSince1970: 1_000_000)
    private let offline = SanguineError.transport(.offline("no network"))

    @Test func `the first waiter starts a fetch and the next ones join it`() {
        var state = EntryState()

        #expect(state.join(waiter: 1, nextFetch: 7).start == 7)
        #expect(state.join(waiter: 2, nextFetch: 8) == .nothing)
        #expect(state.complete(7, at: now, nextFetch: 9)?.answer.sorted() == [1, 2])
        #expect(state.network == .idle)
    }

    @Test func `a waiter that leaves is answered, and the fetch continues for the others`() {
        var state = EntryState()
        _ = state.join(waiter: 1, nextFetch: 7)
        _ = state.join(waiter: 2, nextFetch: 8)

        #expect(state.leave(waiter: 1) == .init(answer: [1]))
        #expect(state.isFetching)
        #expect(state.complete(7, at: now, nextFetch: 9)?.answer == [2])
    }

    @Test func `the last waiter to leave cancels the fetch, which can no longer complete`() {
        var state = EntryState()
        _ = state.join(waiter: 1, nextFetch: 7)

        #expect(state.leave(waiter: 1) == .init(cancel: 7, answer: [1]))
        #expect(state.complete(7, at: now, nextFetch: 9) == nil)
        #expect(state.held == nil)
    }

    @Test func `an observer keeps the fetch alive when the last waiter leaves`() {
        var state = EntryState()
        #expect(state.observe(1, isFresh: false, nextFetch: 7).start == 7)
        _ = state.join(waiter: 2, nextFetch: 8)

        #expect(state.leave(waiter: 2).cancel == nil)
        #expect(state.unobserve(1).cancel == 7)
    }

    @Test func `an error answers every waiter, and the next one starts again`() {
        var state = EntryState()
        _ = state.join(waiter: 1, nextFetch: 7)
        _ = state.join(waiter: 2, nextFetch: 8)

        let actions = state.fail(7, error: offline, nextFetch: 9)
        #expect(actions?.answer.sorted() == [1, 2])
        #expect(state.error == offline)
        #expect(state.join(waiter: 3, nextFetch: 10).start == 10)
    }

    @Test func `a waiter that joins after an invalidation gets a later fetch`() {
        var state = EntryState()
        _ = state.join(waiter: 1, nextFetch: 7)
        _ = state.invalidate(generation: 1, nextFetch: 8)
        _ = state.join(waiter: 2, nextFetch: 9)

        let actions = state.complete(7, at: now, nextFetch: 10)
        #expect(actions == .init(answer: [1], start: 10))
        #expect(!state.isFresh(.forever, at: now, in: .gmt))
        #expect(state.complete(10, at: now, nextFetch: 11)?.answer == [2])
        #expect(state.isFresh(.forever, at: now, in: .gmt))
    }

    @Test func `only observed values are fetched again after an invalidation`() {
        var state = EntryState()
        #expect(state.invalidate(generation: 1, nextFetch: 7) == .nothing)
        _ = state.observe(1, isFresh: true, nextFetch: 8)
        #expect(state.invalidate(generation: 2, nextFetch: 9).start == 9)
    }

    @Test func `another user's entry drops the data and rejects the late answer`() {
        var state = EntryState()
        _ = state.join(waiter: 1, nextFetch: 7)
        _ = state.complete(7, at: now, nextFetch: 8)
        _ = state.join(waiter: 2, nextFetch: 9)

        let actions = state.reset(nextFetch: nil)
        #expect(actions == .init(cancel: 9, answer: [2]))
        #expect(state.held == nil)
        #expect(state.complete(9, at: now, nextFetch: 10) == nil)
        #expect(state.held == nil)
    }

    @Test func `a row from disk never replaces a fetched value`() {
        var state = EntryState()
        _ = state.join(waiter: 1, nextFetch: 7)
        _ = state.complete(7, at: now, nextFetch: 8)

        let isRestored = state.restore(asOf: now - .seconds(60), staleSince: nil)
        #expect(!isRestored)
        #expect(state.held?.asOf == now)
    }

    struct FreshnessCase: Sendable, CustomTestStringConvertible {
        let freshness: Policy.Freshness
        let age: Duration
        let fromDisk: Bool
        let isFresh: Bool
        var testDescription: String { "\(freshness), \(age), from disk: \(fromDisk)" }
    }

    @Test(arguments: [
        FreshnessCase(freshness: .never, age: .zero, fromDisk: false, isFresh: false),
        FreshnessCase(
            freshness: .duration(.seconds(5)),
            age: .zero,
            fromDisk: false,
            isFresh: true
        ),
        FreshnessCase(
            freshness: .duration(.seconds(5)),
            age: .milliseconds(4_999),
            fromDisk: true,
            isFresh: true
        ),
        FreshnessCase(
            freshness: .duration(.seconds(5)),
            age: .seconds(5),
            fromDisk: false,
            isFresh: false
        ),
        FreshnessCase(
            freshness: .duration(.seconds(5)),
            age: .seconds(-1),
            fromDisk: false,
            isFresh: false
        ),
        FreshnessCase(freshness: .session, age: .hours(9), fromDisk: false, isFresh: true),
        FreshnessCase(freshness: .session, age: .zero, fromDisk: true, isFresh: false),
        FreshnessCase(freshness: .forever, age: .hours(9_999), fromDisk: true, isFresh: true),
        FreshnessCase(freshness: .forever, age: .seconds(-1), fromDisk: true, isFresh: false),
        FreshnessCase(freshness: .session, age: .seconds(-1), fromDisk: false, isFresh: false),
    ])
    func `freshness depends on policy, age and origin`(given: FreshnessCase) {
        var state = EntryState()
        if given.fromDisk {
            let isRestored = state.restore(asOf: now - given.age, staleSince: nil)
            #expect(isRestored)
        } else {
            _ = state.join(waiter: 1, nextFetch: 1)
            _ = state.complete(1, at: now - given.age, nextFetch: 2)
        }

        #expect(state.isFresh(given.freshness, at: now, in: .gmt) == given.isFresh)
    }

    @Test func `a row that was invalidated before it was written stays stale`() {
        var state = EntryState()
        let isRestored = state.restore(asOf: now, staleSince: 0)
        #expect(isRestored)
        #expect(!state.isFresh(.forever, at: now, in: .gmt))
    }

    @Test func `a value that was set is not overwritten by an earlier fetch`() {
        var state = EntryState()
        _ = state.join(waiter: 1, nextFetch: 7)
        #expect(state.set(at: now, generation: 1) == .nothing)

        let actions = state.complete(7, at: now + .seconds(1), nextFetch: 8)
        #expect(actions == .init(answer: [1], isOvertaken: true))
        #expect(state.held?.asOf == now)
        #expect(state.isFresh(.forever, at: now, in: .gmt))
    }

    @Test func `an observer starts no second fetch after a value was set`() {
        var state = EntryState()
        _ = state.observe(1, isFresh: false, nextFetch: 7)
        _ = state.set(at: now, generation: 1)
        #expect(state.complete(7, at: now, nextFetch: 8)?.start == nil)
    }

    @Test func `a day's value is fresh while the user's calendar shows that day`() throws {
        let berlin = try #require(TimeZone(identifier: "Europe/Berlin"))
        let tokyo = try #require(TimeZone(identifier: "Asia/Tokyo"))
        // 2026-10-25 has 25 hours in Berlin.
        let early = try #require(Timestamp("2026-10-25T00:30:00+02:00"))
        let late = try #require(Timestamp("2026-10-25T23:59:59+01:00"))
        var state = EntryState()
        let day = LocalDay(containing: early, in: berlin)
        _ = state.set(at: early, day: day, generation: 1)

        #expect(state.isFresh(.untilMidnight, at: late, in: berlin))
        #expect(!state.isFresh(.untilMidnight, at: late + .seconds(1), in: berlin))
        #expect(!state.isFresh(.untilMidnight, at: late, in: tokyo))
    }

    /// Plays random events against the guarantees to readers; the state checks its own invariants
    /// too.
    @Test(arguments: Fuzz.seeds(1...20))
    func `every waiter is answered once, with nothing older than its request`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var world = EntryWorld()
        for _ in 1...Fuzz.events(60_000) {
            world.step(using: &random)
            if !world.faults.isEmpty { break }
        }
        world.finish()
        #expect(world.faults == [], Fuzz.replay(Self.self, seed: seed))
    }
}

/// Plays events around one entry and records every violation.
private struct EntryWorld {
    var state = EntryState()
    var faults: [String] = []
    private var number: UInt64 = 0
    private var moment: Int64 = 0
    private var invalidations = 0
    // The waiters and fetches, each with the number of invalidations when it began.
    private var waiting: [UInt64: Int] = [:]
    private var flying: [UInt64: (since: Int, isCancelled: Bool)] = [:]
    private var observers: [UInt64] = []
    /// The number of invalidations before the held value was fetched.
    private var newest: Int?

    private mutating func next() -> UInt64 {
        number += 1
        return number
    }

    mutating func step(using random: inout SplitMix64) {
        moment += Int64.random(in: -5...20, using: &random)
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<30:
            let waiter = next()
            waiting[waiter] = invalidations
            perform(state.join(waiter: waiter, nextFetch: next()), servedBy: nil)
        case 30..<45:
            guard let waiter = waiting.keys.sorted().randomElement(using: &random) else { return }
            perform(state.leave(waiter: waiter), servedBy: nil)
        case 45..<50:
            let observer = next()
            observers.append(observer)
            let isFresh = Bool.random(using: &random)
            perform(
                state.observe(observer, isFresh: isFresh, nextFetch: next()),
                servedBy: nil
            )
        case 50..<57:
            guard !observers.isEmpty else { return }
            let index = observers.indices.randomElement(using: &random) ?? 0
            perform(state.unobserve(observers.remove(at: index)), servedBy: nil)
        case 57..<63:
            invalidations += 1
            let generation = UInt64(invalidations)
            perform(
                state.invalidate(generation: generation, nextFetch: next()),
                servedBy: nil
            )
        case 63..<64:
            let isStale = Bool.random(using: &random)
            let isTaken = state.restore(
                asOf: Timestamp(millisecondsSince1970: moment),
                staleSince: isStale ? UInt64(invalidations) : nil
            )
            if isTaken { newest = isStale ? nil : 0 }
        case 64..<67:
            invalidations += 1
            let now = Timestamp(millisecondsSince1970: moment)
            let actions = state.set(at: now, generation: UInt64(invalidations))
            if actions != .nothing { faults.append("a value could not be set") }
            newest = invalidations
        case 67..<69:
            let isSomebody = Bool.random(using: &random)
            perform(
                state.reset(nextFetch: isSomebody ? next() : nil),
                servedBy: nil
            )
            if state.held != nil { faults.append("data of a previous user is held") }
            newest = nil
            if !waiting.isEmpty { faults.append("a waiter outlived its user") }
        default:
            guard let fetchNumber = flying.keys.sorted().randomElement(using: &random) else {
                return
            }
            end(fetchNumber, hasFailed: Int.random(in: 1...4, using: &random) == 1)
        }
        if !waiting.isEmpty && !state.isFetching { faults.append("waiters without a fetch") }
        if flying.values.count(where: { !$0.isCancelled }) > 1 { faults.append("two flights") }
        if state.waiterCount != waiting.count { faults.append("waiters were lost") }
    }

    mutating func finish() {
        for _ in 0..<10 {
            for fetchNumber in flying.keys.sorted() { end(fetchNumber, hasFailed: false) }
        }
        if !waiting.isEmpty { faults.append("\(waiting.count) waiters were never answered") }
    }

    private mutating func end(_ fetchNumber: UInt64, hasFailed: Bool) {
        guard let flown = flying.removeValue(forKey: fetchNumber) else { return }
        let actions =
            hasFailed
            ? state.fail(fetchNumber, error: .closed, nextFetch: next())
            : state.complete(
                fetchNumber,
                at: Timestamp(millisecondsSince1970: moment),
                nextFetch: next()
            )
        guard let actions else {
            if !flown.isCancelled { faults.append("a fetch with waiters could not complete") }
            return
        }
        if flown.isCancelled { faults.append("a cancelled fetch completed") }
        if !hasFailed {
            if actions.isOvertaken != (newest.map { $0 > flown.since } ?? false) {
                faults.append("a fetched value and a set value were ordered wrongly")
            }
            if !actions.isOvertaken { newest = flown.since }
        }
        perform(actions, servedBy: flown.since)
    }

    private mutating func perform(_ actions: EntryState.Actions, servedBy since: Int?) {
        if let fetchNumber = actions.cancel { flying[fetchNumber]?.isCancelled = true }
        for waiter in actions.answer {
            guard let asked = waiting.removeValue(forKey: waiter) else {
                faults.append("waiter \(waiter) was answered twice")
                continue
            }
            if let since, since < asked { faults.append("an answer older than the invalidation") }
        }
        if let fetchNumber = actions.start {
            flying[fetchNumber] = (since: invalidations, isCancelled: false)
        }
    }
}
