import AlmanacModel
import Foundation
import SanguineServer

/// The team's file of feedback: a line of JSON for each, once.
///
/// The app's outbox sends feedback until it is answered. The server answers a repeated request from
/// its record of the first, unless it was killed between the line and that record. For this case,
/// the newest lines of the file are known by their ids.
actor FeedbackFile {
    /// The part of the file, from its end, whose ids are known.
    private static let knownBytes = 1 << 20
    /// The number of known ids at which the file is read again, so that they stay few.
    private static let mostKnown = 20_000

    private let file: URL
    /// The ids of the newest lines; `nil` until the file was read.
    private var known: Set<String>?

    init(in folder: URL) { file = folder.appending(path: "feedback.jsonl") }

    /// Appends a line unless the file contains it, and returns when it is on the disk.
    func append(_ feedback: Feedback) throws {
        if !FileManager.default.fileExists(atPath: file.path) {
            // If this fails, opening the file says why.
            _ = FileManager.default.createFile(
                atPath: file.path,
                contents: nil,
                attributes: [.posixPermissions: 0o600]
            )
        }
        let handle = try FileHandle(forUpdating: file)
        defer { try? handle.close() }
        var ids = try known ?? Self.repair(handle)
        if !ids.contains(feedback.id) {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys]
            let line = try encoder.encode(feedback) + Data("\n".utf8)
            // A line that was not written whole is cut off before the next one.
            known = nil
            try handle.seekToEnd()
            try handle.write(contentsOf: line)
            try handle.synchronize()
            ids.insert(feedback.id)
        }
        known = ids.count < Self.mostKnown ? ids : nil
    }

    /// Cuts off the part of a line that a killed server has left, and returns the newest ids.
    private static func repair(_ handle: FileHandle) throws -> Set<String> {
        let end = try handle.seekToEnd()
        let start = end > knownBytes ? end - UInt64(knownBytes) : 0
        try handle.seek(toOffset: start)
        let text = try handle.readToEnd() ?? Data()
        let whole = text.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
        if whole < text.count { try handle.truncate(atOffset: start + UInt64(whole)) }
        let ids = text.prefix(whole).split(separator: UInt8(ascii: "\n")).compactMap { line in
            // The first line may have begun before the part that was read.
            try? JSONDecoder().decode(Feedback.self, from: line).id
        }
        return Set(ids)
    }
}
