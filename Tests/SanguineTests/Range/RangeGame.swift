import Foundation
import SanguineModel
import SanguineTesting

@testable import Sanguine

/// Readers, fetches, a changing server and the client's coverage, played at random from a seed.
///
/// The server reports each change as an invalidation. So each fresh value must match the server's
/// current state, regardless of the order of events. There are few positions, so that all of them
/// are checked after every event.
struct RangeGame {
    private struct Reader {
        var wanted: RangeSet<Int>
        /// The server's versions at the time of the request.
        var versions: [Int]
        /// Whether a value was evicted since, so that the reader may miss it.
        var isExcused = false
    }

    static let positions = 32
    static let freshness = Duration.milliseconds(200)

    private(set) var fault: String?
    private(set) var lastEvent = ""
    private(set) var answered = 0
    private(set) var shared = 0

    private var random: SplitMix64
    private var state = RangeState()
    private var contents = RangeContents<Int>()
    private var versions = (0..<positions).map { $0 + 1 }
    private var readers: [UInt64: Reader] = [:]
    private var samples: [UInt64: [Int: Int]] = [:]
    private var arrived: Set<UInt64> = []
    private var now = Timestamp(millisecondsSince1970: 0)
    private var lastReader: UInt64 = 0

    init(seed: UInt64) { random = SplitMix64(seed: seed) }

    /// Returns a version as a value; some have none.
    private func value(_ version: Int) -> Int? { version.isMultiple(of: 4) ? nil : version }

    private mutating func randomRange() -> Range<Int> {
        let from = chance(Self.positions)
        return from..<min(Self.positions, from + 1 + chance(12))
    }

    // A generator's own `random(in:using:)` is not specialized without optimization.
    private mutating func chance(_ count: Int) -> Int { Int(random.next() % UInt64(count)) }

    mutating func step() {
        switch chance(100) {
        case 0..<26: join()
        case 26..<30: joinAgain()
        case 30..<36: leave()
        case 36..<60: sample()
        case 60..<80: arrive()
        case 80..<84: fail()
        case 84..<92: change()
        case 92..<94: invalidateAll()
        case 94..<98: pass()
        case 98: evict()
        default: abandon()
        }
        check()
    }

    /// Finishes all fetches.
    mutating func rest() {
        while let request = state.requests.first, fault == nil {
            sample(request)
            complete(request.number)
            check()
        }
        if !readers.isEmpty { fault = fault ?? "\(readers.count) readers were never answered." }
    }

    // MARK: - Events

    private mutating func join() {
        guard readers.count < 8 else { return }
        let range = randomRange()
        let isRefreshing = chance(10) == 0
        lastEvent = "join \(range)"
        lastReader += 1
        let wanted = RangeSet(range)
        readers[lastReader] = Reader(wanted: wanted, versions: versions)
        state.touch(range)
        let before = state.requests.count
        let missing = isRefreshing ? wanted : wanted.subtracting(fresh(in: range))
        let actions = state.join(waiter: lastReader, missing: missing)
        if actions.start.isEmpty && before > 0 && !missing.isEmpty { shared += 1 }
        play(actions, isSuccess: true)
    }

    /// Lets a waiting reader join again, as an observer does after an invalidation.
    private mutating func joinAgain() {
        guard let reader = readers.keys.min() else { return }
        let range = randomRange()
        lastEvent = "join \(range) again"
        readers[reader]?.wanted.insert(contentsOf: range)
        readers[reader]?.versions.replaceSubrange(range, with: versions[range])
        let missing = RangeSet(range).subtracting(fresh(in: range))
        play(state.join(waiter: reader, missing: missing), isSuccess: true)
    }

    private mutating func leave() {
        guard let reader = readers.keys.min() else { return }
        lastEvent = "leave \(reader)"
        let actions = state.leave(waiter: reader)
        readers[reader] = nil
        play(actions, isSuccess: false)
    }

    private mutating func sample() {
        guard !state.requests.isEmpty else { return }
        sample(state.requests[chance(state.requests.count)])
    }

    private mutating func sample(_ request: RangeState.RangeRequest) {
        lastEvent = "sample \(request.range)"
        guard samples[request.number] == nil else { return }
        var brought: [Int: Int] = [:]
        for position in request.range { brought[position] = value(versions[position]) }
        samples[request.number] = brought
    }

    /// Completes a fetch; its values are written at once or a little later.
    private mutating func arrive() {
        guard !samples.isEmpty else { return }
        let number = samples.keys.sorted()[chance(samples.count)]
        lastEvent = "arrive \(number)"
        if !arrived.contains(number) {
            guard state.arrive(number) != nil else { return }
            arrived.insert(number)
            if chance(3) == 0 { return }
        }
        complete(number)
    }

    private mutating func complete(_ number: UInt64) {
        lastEvent = "land \(number)"
        if !arrived.contains(number) { _ = state.arrive(number) }
        arrived.remove(number)
        guard let request = state.request(number), let brought = samples.removeValue(forKey: number)
        else { return }
        contents.add(brought, request, asOf: now, keeping: [request.range] + state.recent)
        if let actions = state.complete(number) { play(actions, isSuccess: true) }
    }

    private mutating func fail() {
        guard !state.requests.isEmpty else { return }
        let request = state.requests[chance(state.requests.count)]
        lastEvent = "fail \(request.number)"
        drop(request.number)
        if let actions = state.fail(request.number, .closed) { play(actions, isSuccess: false) }
    }

    private mutating func change() {
        let range = randomRange().prefix(3)
        lastEvent = "change \(range)"
        for position in range { versions[position] += 1 }
        let positions = RangeSet(range.startIndex..<range.endIndex)
        state.invalidate(positions)
        contents.coverage.markStale(positions)
    }

    private mutating func invalidateAll() {
        lastEvent = "invalidate all"
        for position in versions.indices { versions[position] += 1 }
        state.invalidateAll()
        contents.coverage.markAllStale()
    }

    private mutating func pass() {
        lastEvent = "time"
        now = now + .milliseconds(1 + chance(100))
    }

    private mutating func evict() {
        lastEvent = "evict"
        contents = RangeContents()
        for reader in readers.keys { readers[reader]?.isExcused = true }
    }

    private mutating func abandon() {
        lastEvent = "abandon"
        contents = RangeContents()
        play(state.reset(.userChanged), isSuccess: false)
    }

    // MARK: - Effects and checks

    private mutating func play(_ actions: RangeState.Actions, isSuccess: Bool) {
        for request in actions.cancel { drop(request) }
        for (number, _) in actions.answer {
            guard let reader = readers.removeValue(forKey: number), isSuccess else { continue }
            answered += 1
            check(reader)
        }
    }

    private mutating func drop(_ request: UInt64) {
        samples[request] = nil
        // It had already kept earlier ones from writing.
        guard arrived.remove(request) != nil else { return }
        for reader in readers.keys { readers[reader]?.isExcused = true }
    }

    private func fresh(in range: Range<Int>) -> RangeSet<Int> {
        contents.coverage.positions(in: range) {
            $0.isFresh(.duration(Self.freshness), at: now, in: .gmt)
        }
    }

    /// Checks that an answered reader finds its whole range, and no value older than its request.
    private mutating func check(_ reader: Reader) {
        guard !reader.isExcused else { return }
        for range in reader.wanted.ranges {
            let known = contents.coverage.positions(in: range) { _ in true }
            if known != RangeSet(range) { fault = "A reader of \(range) was answered too early." }
            for position in range {
                if let value = contents.values[position], value < reader.versions[position] {
                    fault = "\(position) has version \(value), older than the read."
                }
            }
        }
    }

    private mutating func check() {
        var known = 0
        for span in contents.coverage.spans {
            for position in span.range {
                let present = contents.values[position]
                if present != nil { known += 1 }
                guard !span.isStale, present != value(versions[position]) else { continue }
                fault = """
                    \(position) counts as fresh and is \(present.debugDescription), not version \
                    \(versions[position])
                    """
            }
        }
        if contents.values.count != known { fault = "A value is held that is not known." }
        if state.waiterCount != readers.count { fault = "A reader was lost." }
    }
}
