import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// Stores a text under a key.
private struct KeepText: RecordMutation {
    static let name = "test.keep"
    let id: RecordID
    let text: String

    func apply(to records: inout Records) throws {
        let fields: RecordFields = ["text": .string(text)]
        records.put(RecordValue(fields), for: RecordKey("notes", id))
    }
}

/// Functions whose calls change records, run by a process.
@Suite("Calls that change records", .bounded)
struct RecordingCallTests {
    private static var settings: AuthoritySettings {
        var settings = AuthoritySettings()
        settings.schema = RecordSchema(collections: [RecordCollection("notes")], mutations: [])
        return settings
    }

    private func function(_ rules: FunctionRules) -> ScriptedFunction {
        var function = ScriptedFunction("f", rules) { _, _ async throws(Problem) in
            .init(output: "made", charge: 1)
        }
        function.records = { output in
            let text = output.string ?? ""
            return { completed in
                [KeepText(id: try RecordID(derivedFrom: completed.key), text: text)]
            }
        }
        return function
    }

    private func count(_ world: CallWorld, _ who: Identity) async throws -> Int {
        try await world.authority.pull(who.account, .init(since: 0)).changes
            .count { $0.collection == "notes" }
    }

    @Test(arguments: [Price.fixed(1), .free])
    func `a call stores its record once, however often it is sent`(price: Price) async throws {
        let world = CallWorld(function(FunctionRules(price: price)), settings: Self.settings)
        let who = try await world.account()
        #expect(await world.answer(who, "k").output == "made")
        let again = await world.answer(who, "k")
        #expect(again.isReplayed && again.output == "made")
        #expect(try await count(world, who) == 1)
        let head = try await world.balance(who).head
        let stored = try await world.authority.pull(who.account, .init(since: 0))
        #expect(stored.head == head)
    }

    @Test func `a cached answer stores the record of each call`() async throws {
        let rules = FunctionRules(price: .fixed(1), cache: .forever)
        let world = CallWorld(function(rules), settings: Self.settings)
        let who = try await world.account()
        _ = await world.answer(who, "a")
        let second = await world.answer(who, "b")
        #expect(second.isFromCache)
        #expect(try await count(world, who) == 2)
    }

    @Test func `a process that dies before the end is stored leaves neither answer nor record`()
        async throws
    {
        let function = function(FunctionRules(price: .fixed(1)))
        let world = CallWorld(function, settings: Self.settings)
        let who = try await world.account()
        // The storage accepts the call, and nothing later.
        world.storage.state.withLock { state in
            state.afterwards = { [storage = world.storage] _ in
                storage.die()
                return nil
            }
        }
        let lost = Task { await world.answer(who, "k") }
        try await eventually("the end is refused") { world.reported.value.notStored > 0 }
        let next = CallWorld(
            function,
            over: world.storage.inner,
            wall: world.wall,
            settings: Self.settings
        )
        #expect(try await count(next, who) == 0)
        next.wall.advance(by: .seconds(86_400))
        _ = try await next.authority.expireHolds()
        #expect(try await count(next, who) == 0)
        #expect(try await next.isSound())
        lost.cancel()
    }
}
