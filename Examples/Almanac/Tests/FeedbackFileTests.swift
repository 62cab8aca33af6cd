import AlmanacModel
import Foundation
import TestSupport
import Testing

@testable import AlmanacServer

/// The team's file, after the server was killed between a line and its answer.
@Suite("File of feedback", .bounded)
struct FeedbackFileTests {
    @Test func `feedback that arrives again after a kill is one line`() async throws {
        try await TemporaryFolder.with { folder in
            let (first, second) = (Self.feedback("1"), Self.feedback("2"))
            try await FeedbackFile(in: folder).append(first)

            let restarted = FeedbackFile(in: folder)
            for feedback in [first, second, second] { try await restarted.append(feedback) }
            #expect(try Self.stored(in: folder) == [first, second])
        }
    }

    @Test func `a part of a line is cut off before the next one`() async throws {
        try await TemporaryFolder.with { folder in
            try await FeedbackFile(in: folder).append(Self.feedback("1"))
            let handle = try FileHandle(forWritingTo: Self.file(in: folder))
            try handle.seekToEnd()
            try handle.write(contentsOf: Data(#"{"comment":"It ra"#.utf8))
            try handle.close()

            let restarted = FeedbackFile(in: folder)
            for id in ["2", "1"] { try await restarted.append(Self.feedback(id)) }
            #expect(try Self.stored(in: folder).map(\.id) == ["1", "2"])
        }
    }

    private static func feedback(_ id: String) -> Feedback {
        Feedback(on: Predict.name, isHelpful: true, comment: "It rained.", id: id)
    }

    private static func file(in folder: URL) -> URL { folder.appending(path: "feedback.jsonl") }

    private static func stored(in folder: URL) throws -> [Feedback] {
        try Data(contentsOf: file(in: folder)).split(separator: UInt8(ascii: "\n")).map {
            try JSONDecoder().decode(Feedback.self, from: $0)
        }
    }
}
