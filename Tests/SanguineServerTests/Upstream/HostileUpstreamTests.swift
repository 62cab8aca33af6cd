import HostileUpstream
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

/// The hostile upstream's invoice, on which other tests rely.
@Suite("Hostile upstream", .bounded)
struct HostileUpstreamTests {
    @Test func `a word is a token, and the prompt sets their number`() {
        let answer = HostileAnswer(to: "id=a  words=4\nplease", otherParts: 2)
        #expect(answer.promptTokens == 3 + 2 * HostileAnswer.partTokens)
        #expect(answer.words.count == 4)
        #expect(HostileAnswer(to: "words=4", maxTokens: 3).words.count == 3)
        #expect(HostileAnswer(to: "words=4", maxTokens: 3).isCut)
        #expect(answer == HostileAnswer(to: "id=a  words=4\nplease", otherParts: 2))
        #expect((3...12).contains(HostileAnswer(to: "hello").words.count))
    }

    @Test(arguments: [true, false])
    func `each id has its own bill`(streamed: Bool) async throws {
        try await UpstreamWorld.with(.none) { world in
            _ = await world.ask("id=a words=5", streamed: streamed)
            _ = await world.ask("id=b-2 words=3 x", streamed: streamed)
            _ = await world.ask("id=a words=5", streamed: streamed)
            let hostile = world.upstreams[0]
            let bills: [String: HostileUpstream.Bill] = [
                "a": .init(requests: 2, promptTokens: 4, completionTokens: 10),
                "b-2": .init(requests: 1, promptTokens: 3, completionTokens: 3),
            ]
            #expect(hostile.invoice == bills)
            #expect(hostile.total.completionTokens == 13)
        }
    }

    @Test func `a refused request is not billed`() async throws {
        try await UpstreamWorld.with(.refuses(status: 429)) { world in
            _ = await world.ask()
            #expect(world.upstreams[0].invoice == ["a": .init(requests: 1)])
        }
    }

    @Test func `an upstream that resets the connection bills the prompt`() async throws {
        try await UpstreamWorld.with(.reset(bytes: 0)) { world in
            _ = await world.ask()
            #expect(world.upstreams[0].invoice == ["a": .init(requests: 1, promptTokens: 2)])
        }
    }

    @Test func `a stream is ahead of its reader by the number of words in the prompt`()
        async throws
    {
        try await UpstreamWorld.with(.none) { world in
            let hostile = world.upstreams[0]
            async let asked = world.ask("id=a words=5 ahead=2")
            for read in 0...3 {
                try await hostile.state.wait(for: "\(read + 2) words") {
                    $0.invoice["a"]?.completionTokens == read + 2
                }
                hostile.acknowledge(read + 1, of: "a")
            }
            #expect(await asked.pieces.count == 5)
            #expect(hostile.invoice["a"]?.completionTokens == 5)
        }
    }

    @Test(arguments: 1...40 as ClosedRange<UInt64>)
    func `the received words never exceed the billed ones`(seed: UInt64) async throws {
        try await UpstreamWorld.with([HostileUpstream.Fault.seeded(seed)]) { world in
            for number in 0..<4 {
                let asked = await world.ask("id=\(number) words=20")
                let bill = try #require(world.upstreams[0].invoice["\(number)"])
                #expect(asked.pieces.count <= bill.completionTokens)
                if asked.answer != nil { #expect(asked.pieces.count == bill.completionTokens) }
            }
        }
    }

    @Test func `the same seed treats the same id alike`() async throws {
        func results(_ seed: UInt64) async throws -> [Bool] {
            var results: [Bool] = []
            try await UpstreamWorld.with([HostileUpstream.Fault.seeded(seed)]) { world in
                for number in 0..<4 {
                    results.append(await world.ask("id=\(number)").answer != nil)
                }
            }
            return results
        }
        let first = try await results(7)
        #expect(try await results(7) == first)
    }
}
