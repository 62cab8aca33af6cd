import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// Streams that are interrupted at random moments by readers, owners, upstreams and server crashes:
/// each key has one end, its parts are the same bytes for all readers, and it is charged once.
@Suite("Interruption game", .bounded(.seconds(120)))
struct CutGameTests {
    @Test(arguments: 1...20)
    func `ten thousand interruptions lose no byte, end each key once and keep the ledger right`(
        seed: UInt64
    ) async throws {
        var game = try await CutGame(seed: seed)
        while game.cuts < 500 { try await game.play() }
        try await game.finish()
        #expect(game.faults.prefix(5) == [])
        // Each kind of end occurred, and often.
        #expect(game.ends.count >= 4 && game.ends.values.reduce(0, +) > 50)
    }
}

/// A series of servers over one storage, and calls of a few accounts.
private struct CutGame {
    /// The state of a call as seen by clients.
    private struct Call {
        var who: Identity
        var key: String
        var size: Int
        /// The texts that clients have seen, by index.
        var seen: [String] = []
        var end: Heard?
    }

    private(set) var faults: [String] = []
    private(set) var cuts = 0
    private(set) var ends: [String: Int] = [:]

    private let storage = MemoryStorage()
    private let wall = ManualClock()
    private var random: SplitMix64
    private var world: CallWorld
    private var steps: WatchedState<[String: Int]>
    private var people: [Identity] = []
    private var calls: [Call] = []
    private var number = 0

    init(seed: UInt64) async throws {
        random = SplitMix64(seed: seed)
        (world, steps) = Self.process(over: storage, wall)
        for number in 1...3 as ClosedRange<UInt64> {
            people.append(try await world.account(number, tokens: 1_000_000))
        }
    }

    /// Starts a new server.
    ///
    /// The steps of a run are set by its key: `-1` makes it fail.
    private static func process(
        over storage: MemoryStorage,
        _ wall: ManualClock
    ) -> (CallWorld, WatchedState<[String: Int]>) {
        let steps = WatchedState<[String: Int]>([:])
        var functions = [FunctionRules.Disconnect.drain, .stop].map { onDisconnect in
            let rules = FunctionRules(
                price: .fixed(100),
                streams: true,
                onDisconnect: onDisconnect
            )
            var function = ScriptedFunction(onDisconnect.rawValue, rules) {
                input,
                context async throws(Problem) in
                try await Self.run(input, context, steps)
            }
            function.cost = { Int64($0.parts) }
            return function
        }
        let last = functions.removeLast()
        return (CallWorld(functions[0], last, over: storage, wall: wall), steps)
    }

    private static func run(
        _ input: JSONValue,
        _ context: CallContext,
        _ steps: WatchedState<[String: Int]>
    ) async throws(Problem) -> PreparedCall.Outcome {
        let key = input["key"]?.string ?? ""
        let size = Int(input["size"]?.integer ?? 0)
        for number in 0...size {
            do {
                try await steps.wait(for: "step \(number) of \(key)") { steps in
                    steps[key].map { $0 < 0 || $0 > number } ?? false
                }
            } catch {
                throw Problem(.upstreamFailed, "Cut.")
            }
            if steps.value[key] ?? 0 < 0 { throw .upstreamFailed }
            guard number < size else { break }
            let text = Self.text(key, number)
            await context.write(text, text.utf8.count)
        }
        return .init(output: .string(key), charge: Int64(size))
    }

    /// Parts of all sizes; some answers exceed the window in memory.
    private static func text(_ key: String, _ number: Int) -> String {
        let text = "\(key)#\(number) "
        return number % 7 == 3 ? text + String(repeating: "…", count: 1_500) : text
    }

    // MARK: - Moves

    mutating func play() async throws {
        switch Int.random(in: 0..<20, using: &random) {
        case 0..<3 where calls.count { $0.end == nil } < 8: try await begin()
        case 3..<12: try await read()
        case 12..<15: advance()
        case 15: try await store()
        case 16: fail()
        case 17: try await cancel()
        case 18 where Int.random(in: 0..<8, using: &random) == 0: try await die()
        default: advance()
        }
    }

    /// Starts a new call, reads it for a while, and disconnects.
    private mutating func begin() async throws {
        number += 1
        let size = Int.random(in: 0...30, using: &random)
        guard let who = people.randomElement(using: &random) else { return }
        calls.append(Call(who: who, key: "k\(number)", size: size))
        try await read(calls.count - 1, byPost: true)
    }

    private mutating func read() async throws {
        guard let place = open.randomElement(using: &random) else { return }
        try await read(place, byPost: .random(using: &random))
    }

    private var open: [Int] { calls.indices.filter { calls[$0].end == nil } }

    private mutating func advance() {
        guard let place = open.randomElement(using: &random) else { return }
        let more = Int.random(in: 1...6, using: &random)
        let key = calls[place].key
        steps.withLock { steps in
            if steps[key] ?? 0 >= 0 { steps[key, default: 0] += more }
        }
    }

    private mutating func fail() {
        guard let place = open.randomElement(using: &random) else { return }
        let key = calls[place].key
        steps.withLock { $0[key] = -1 }
    }

    /// Advances the time, so that parts are stored.
    private mutating func store() async throws {
        world.delay.advance(by: RunExecution.storeInterval)
        wall.advance(by: RunExecution.storeInterval)
    }

    private mutating func cancel() async throws {
        guard let place = open.randomElement(using: &random) else { return }
        let call = calls[place]
        _ = try? await world.cancel(call.who, call.key)
        try await read(place, byPost: .random(using: &random))
    }

    /// Crashes the process, and recovers in another one.
    private mutating func die() async throws {
        world.storage.die()
        let (old, oldSteps) = (world, steps)
        (world, steps) = Self.process(over: storage, wall)
        try await world.authority.recover()
        cuts += open.count
        // The rest of the old process ends without effects.
        oldSteps.withLock { steps in
            for key in calls.map(\.key) { steps[key] = -1 }
        }
        try await old.delay.advancing(by: .seconds(10)) { await old.runner.waitForLast() }
        try await check()
    }

    // MARK: - Reading

    private func function(_ call: Call) -> String { call.size % 2 == 0 ? "drain" : "stop" }

    /// Reads the current parts of a call, starting at a random index, and disconnects.
    private mutating func read(_ place: Int, byPost: Bool) async throws {
        let call = calls[place]
        let after: Int64? =
            call.seen.isEmpty || Bool.random(using: &random)
            ? nil : Int64.random(in: 0..<Int64(call.seen.count), using: &random)
        let events: CallEventStream
        do {
            events =
                byPost
                ? try await world.stream(
                    call.who,
                    call.key,
                    ["key": .string(call.key), "size": .integer(Int64(call.size))],
                    of: function(call),
                    after: after
                ) : try await world.find(call.who, call.key, after: after)
        } catch let problem as Problem where problem.code == .notFound {
            // The storage had not accepted the call before the last crash.
            if !call.seen.isEmpty { faults.append("\(call.key) was read and is missing") }
            return
        } catch {
            faults.append("\(call.key): \(error)")
            return
        }
        let many = Int.random(in: 0...12, using: &random)
        let allowed = steps.value[call.key] ?? 0
        var heard = Heard()
        // Reads only parts that are certain to arrive.
        let there = max(0, min(allowed, call.size) - Int(after ?? -1) - 1)
        if allowed < 0 || allowed > call.size || isOver(call) {
            heard = try await events.read()
        } else {
            heard = try await events.read(min(many, there))
        }
        events.close()
        cuts += 1
        note(heard, of: place, after: after)
    }

    private func isOver(_ call: Call) -> Bool {
        let key = Key.operation(call.who.account, key: call.key)
        let row = try? storage.loadNow([key]).operation(call.who.account, key: call.key)
        if case .done = row?.state { return true }
        return false
    }

    private mutating func note(_ heard: Heard, of place: Int, after: Int64?) {
        let call = calls[place]
        if !heard.isInOrder { faults.append("\(call.key): out of order") }
        let start = Int(heard.first ?? (after ?? -1) + 1)
        for (offset, text) in heard.texts.enumerated() {
            let index = start + offset
            if text != Self.text(call.key, index) {
                faults.append("\(call.key): part \(index) differs")
            }
            if index == calls[place].seen.count { calls[place].seen.append(text) }
        }
        guard let endIndex = heard.endIndex else { return }
        if heard.status == 200, Int(endIndex) != call.size {
            faults.append("\(call.key): it ended early, at \(endIndex)")
        }
        calls[place].end = heard
        ends[heard.code ?? "result", default: 0] += 1
    }

    // MARK: - Checks

    private mutating func check() async throws {
        if try await !world.isSound() { faults.append("the ledger is wrong") }
        for call in calls.suffix(30) {
            guard let end = call.end else { continue }
            let again = try await world.find(call.who, call.key).read()
            let isSame = again.endIndex == end.endIndex && again.body == end.body
            if !isSame || !again.isInOrder { faults.append("\(call.key): the end differs") }
            if Int64(again.texts.count) != again.endIndex {
                faults.append("\(call.key): \(again.texts.count) of \(again.endIndex ?? -1) parts")
            }
        }
    }

    /// Lets all runs end, and reads every call from the beginning.
    mutating func finish() async throws {
        for place in open {
            steps.withLock { $0[calls[place].key] = calls[place].size + 1 }
        }
        try await world.delay.advancing { [world] in await world.runner.waitUntilIdle() }
        var charged: [Identifier: Int64] = [:]
        for place in calls.indices {
            let call = calls[place]
            guard let events = try? await world.find(call.who, call.key) else {
                if !call.seen.isEmpty { faults.append("\(call.key) is missing") }
                continue
            }
            let heard = try await events.read()
            if let end = call.end, end.endIndex != heard.endIndex || end.body != heard.body {
                faults.append("\(call.key): the end differs")
            }
            note(heard, of: place, after: nil)
            charged[call.who.account, default: 0] += heard.body["charged"]?.integer ?? 0
        }
        for who in people {
            let balance = try await world.balance(who)
            if balance.held != 0
                || balance.available != 1_000_000 - charged[who.account, default: 0]
            {
                faults.append("\(balance) after \(charged)")
            }
        }
        if try await !world.isSound() { faults.append("the ledger is wrong") }
    }
}
