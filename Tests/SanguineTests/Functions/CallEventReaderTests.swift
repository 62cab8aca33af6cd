import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import Sanguine

@Suite("Answer events", .bounded)
struct CallEventReaderTests {
    /// Feeds the reader and returns whether there were new events.
    private func feed(_ reader: inout CallEventReader, _ bytes: Data) throws -> Bool {
        try reader.receive(bytes)
    }

    private func event(_ index: Int, _ text: String) -> Data {
        Data("id: \(index)\nevent: delta\ndata: {\"text\":\"\(text)\"}\n\n".utf8)
    }

    @Test func `a repeated part is not delivered again`() throws {
        var reader = CallEventReader()
        #expect(try feed(&reader, event(0, "a") + event(1, "b")))
        reader.reconnect()
        #expect(try feed(&reader, event(1, "b")) == false)
        #expect(try feed(&reader, event(2, "c")))
        let parts = (1...4).map { _ in reader.nextPart() }
        #expect(parts == ["a", "b", "c", nil] && reader.last == 2)
    }

    @Test func `parts after a gap are rejected`() throws {
        var reader = CallEventReader()
        #expect(try feed(&reader, event(0, "a")))
        #expect(throws: CallEventReader.Broken.self) { try feed(&reader, event(2, "c")) }
        #expect(reader.last == 0)
    }

    @Test func `half an event is not an event, even after a reconnection`() throws {
        var reader = CallEventReader()
        #expect(try feed(&reader, event(0, "a").dropLast(1)) == false)
        reader.reconnect()
        #expect(try feed(&reader, Data("\n".utf8)) == false)
        let part = reader.nextPart()
        #expect(part == nil && reader.last == nil)
    }

    @Test func `the end is accepted with any index because a crashed server may have stored less`()
        throws
    {
        var reader = CallEventReader()
        #expect(try feed(&reader, event(0, "a") + event(1, "b")))
        let end = #"{"type":"about:blank","code":"interrupted","status":502,"charged":1}"#
        #expect(try reader.receive(Data("id: 1\nevent: problem\ndata: \(end)\n\n".utf8)))
        guard case .problem(let problem) = reader.end else {
            Issue.record("The stream has no end.")
            return
        }
        #expect(problem.code == .interrupted && problem.charged == 1)
        #expect(try feed(&reader, event(2, "c")) == false)
    }

    @Test func `a problem without an id does not end the answer, and the end is requested again`()
        throws
    {
        var reader = CallEventReader()
        let stops = #"{"type":"about:blank","code":"operation_in_progress","status":409}"#
        #expect(throws: CallEventReader.Broken.self) {
            try reader.receive(event(0, "a") + Data("event: problem\ndata: \(stops)\n\n".utf8))
        }
        #expect(reader.end == nil && reader.last == 0)
        reader.reconnect()
        #expect(try feed(&reader, event(1, "b")))
        let parts = (1...3).map { _ in reader.nextPart() }
        #expect(parts == ["a", "b", nil])
    }

    @Test func `a ping is not an event`() throws {
        var reader = CallEventReader()
        #expect(try feed(&reader, Data(": ping\n\n".utf8)) == false)
    }
}
