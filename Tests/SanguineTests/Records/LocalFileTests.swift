import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Local files in the arguments of operations, and the operations that wait for them.
@Suite("Local files", .bounded)
struct LocalFileTests {
    private static func id(_ number: Int64) -> Identifier {
        var random = SplitMix64(seed: UInt64(number))
        return Identifier(at: Timestamp(millisecondsSince1970: number), using: &random)
    }

    private static func local(_ number: Int64) -> String { LocalFile.id(id(number)) }

    private static func row(_ arguments: String, lane: String = "main") -> OutboxFile.Row {
        OutboxFile.Row(id: id(99), lane: lane, name: "n", arguments: Data(arguments.utf8))
    }

    @Test func `local ids are found as whole strings and within a text`() {
        let (first, second) = (Self.local(1), Self.local(2))
        let text = #"{"photo":"\#(first)","text":"see \#(second).","other":"local-file-"}"#
        let mentions = LocalFile.mentions(in: Data(text.utf8))
        #expect(mentions.map(\.id) == [first, second])
        #expect(mentions.map(\.isWhole) == [true, false])
        #expect(LocalFile.mentions(in: Data("local-file-and-nothing-else".utf8)).isEmpty)
        #expect(LocalFile.mentions(in: Data(#"{"photo":"a"}"#.utf8)).isEmpty)
    }

    @Test func `the server's id replaces the local one in arguments and lane`() {
        let local = Self.local(1)
        let row = Self.row(#"["\#(local)","\#(local)","\#(Self.local(2))"]"#, lane: "of \(local)")
        let real = row.naming("real", insteadOf: local)
        #expect(
            String(decoding: real.arguments, as: UTF8.self)
                == #"["real","real","\#(Self.local(2))"]"#
        )
        #expect(real.lane == "of real" && !real.names(local) && real.names(Self.local(2)))
    }

    // MARK: - The outbox's state

    private static func outbox() -> OutboxState {
        var outbox = OutboxState(
            limit: 10,
            [.record: .init(operations: 4, sends: 2), .upload: .init(operations: 1, sends: 1)]
        )
        outbox.add(.init(id: id(1), sequence: 1, lane: local(1), kind: .upload))
        outbox.add(.init(id: id(2), sequence: 2, lane: "main"))
        outbox.add(.init(id: id(3), sequence: 3, lane: "main"))
        outbox.add(.init(id: id(4), sequence: 4, lane: "other"))
        outbox.hold(2, until: 1)
        return outbox
    }

    private static func send(
        _ kind: OutboxState.Kind,
        _ outbox: inout OutboxState
    ) throws -> OutboxState.Send {
        let next = outbox.startSend(of: [kind])
        return try #require(next?.send)
    }

    @Test func `an operation and its lane are held until the upload has succeeded`() throws {
        var outbox = Self.outbox()
        let other = try Self.send(.record, &outbox)
        #expect(other.sequences == [4])
        let upload = try Self.send(.upload, &outbox)
        let nothing = outbox.startSend(of: [.record])
        #expect(nothing == nil)
        let result = PushResult(id: Self.id(1), status: .applied, head: 0)
        _ = outbox.complete(upload.number, [result])
        _ = outbox.settle([1])
        let rest = try Self.send(.record, &outbox)
        #expect(rest.sequences == [2, 3])
    }

    @Test func `a refused upload holds its operations, and never lets them go`() throws {
        var outbox = Self.outbox()
        let upload = try Self.send(.upload, &outbox)
        let problem = Problem(.storageFull, "A test's.")
        let result = PushResult(id: Self.id(1), status: .refused, problem: problem)
        _ = outbox.complete(upload.number, [result])
        let other = try Self.send(.record, &outbox)
        #expect(other.sequences == [4])
        let steps = outbox.refuse([2], problem)
        #expect(steps == [.refused(2, problem)])
        let rest = try Self.send(.record, &outbox)
        #expect(rest.sequences == [3])
    }

    @Test func `an upload can be discarded after a failed attempt`() throws {
        var outbox = Self.outbox()
        let upload = try Self.send(.upload, &outbox)
        _ = outbox.fail(upload.number, .retry, wasSent: true)
        #expect(outbox.mayDiscard(1))
    }

    @Test func `an upload that is discarded while it is sent frees its slot`() throws {
        var outbox = Self.outbox()
        outbox.add(.init(id: Self.id(5), sequence: 5, lane: Self.local(5), kind: .upload))
        let upload = try Self.send(.upload, &outbox)
        #expect(!outbox.canSend(.upload))
        let steps = outbox.discard(1)
        #expect(steps == [.removed([1])])
        // Its answer arrives late.
        let late = PushResult(id: Self.id(1), status: .applied, head: 0)
        let effects = outbox.complete(upload.number, [late])
        #expect(effects.isEmpty)
        let next = try Self.send(.upload, &outbox)
        #expect(next.sequences == [5])
    }

    // MARK: - Images

    @Test func `the images of a file move to the server's id, visible or not`() {
        var memory = ImageMemory<Int>(limits: .init(bytes: 10, images: 10))
        let local = ImageKey(scope: 1, resource: "local", side: 128)
        memory.show(local)
        memory.add(7, for: local, cost: 10)
        memory.move("local", to: "real", of: 1)
        let real = ImageKey(scope: 1, resource: "real", side: 128)
        let image = memory.best(for: real)?.image
        #expect(image == 7)
        #expect(!memory.contains(local) && memory.cost == 10)
        memory.hide(local)
        #expect(memory.contains(real))
    }
}
