import AlmanacModel
import Foundation
import SanguineServer

/// The team's file of feedback: a line of JSON for each.
///
/// The app's outbox sends feedback until it is answered, and the server answers a repeated request
/// from its record of the first. Only if the server ends between the line and that record, a line
/// is there twice; both have the same `id`.
actor FeedbackFile {
    private let file: URL

    init(in folder: URL) { file = folder.appending(path: "feedback.jsonl") }

    /// Appends a line, and returns when it is on the disk.
    func append(_ feedback: Feedback) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys]
        let line = try encoder.encode(feedback) + Data("\n".utf8)
        if !FileManager.default.fileExists(atPath: file.path) {
            // If this fails, opening the file says why.
            _ = FileManager.default.createFile(
                atPath: file.path,
                contents: nil,
                attributes: [.posixPermissions: 0o600]
            )
        }
        let handle = try FileHandle(forWritingTo: file)
        defer { try? handle.close() }
        try handle.seekToEnd()
        try handle.write(contentsOf: line)
        try handle.synchronize()
    }
}
