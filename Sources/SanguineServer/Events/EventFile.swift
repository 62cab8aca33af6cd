import Foundation
import SanguineAuthority

/// Appends events to a file as JSON Lines, and begins a new file when it is full.
///
/// The full files have the suffixes `.1`, the newest, to `.<kept>`; older ones are removed. A line
/// that a crash cut off is ended before the next one.
struct EventFile: EventSink {
    private let path: String
    private let limit: Int
    private let kept: Int

    init(path: String, limit: Int, kept: Int) {
        self.path = path
        self.limit = limit
        self.kept = kept
    }

    func deliver(_ events: [OutgoingEvent]) async -> EventReceipt {
        do {
            try await LongWork.shared.perform(for: .anonymous) { () throws(any Error) in
                try append(events)
            }
            return EventReceipt(delivered: events.map(\.documentID))
        } catch {
            return EventReceipt(failure: "\(error)")
        }
    }

    func close() async {}

    /// Appends the lines, and returns when they are on the disk.
    private func append(_ events: [OutgoingEvent]) throws {
        let newline = UInt8(ascii: "\n")
        let lines = Data(events.flatMap { $0.body + [newline] })
        var (handle, size) = try open()
        defer { try? handle.close() }
        if size > 0, size + UInt64(lines.count) > UInt64(limit) {
            try handle.close()
            try rotate()
            (handle, size) = try open()
        }
        if size > 0 {
            try handle.seek(toOffset: size - 1)
            let last = try handle.read(upToCount: 1)
            if last != Data([newline]) { try handle.write(contentsOf: Data([newline])) }
        }
        try handle.seekToEnd()
        try handle.write(contentsOf: lines)
        try handle.synchronize()
    }

    /// Opens the file, which only its owner may read, and returns its size.
    private func open() throws -> (FileHandle, UInt64) {
        if !FileManager.default.fileExists(atPath: path) {
            let isCreated = FileManager.default.createFile(
                atPath: path,
                contents: nil,
                attributes: [.posixPermissions: 0o600]
            )
            guard isCreated else { throw CocoaError(.fileWriteUnknown) }
        }
        let handle = try FileHandle(forUpdating: URL(filePath: path))
        return (handle, try handle.seekToEnd())
    }

    private func rotate() throws {
        let files = FileManager.default
        let name = { (number: Int) in number == 0 ? path : "\(path).\(number)" }
        if files.fileExists(atPath: name(kept)) { try files.removeItem(atPath: name(kept)) }
        for number in (0..<kept).reversed() where files.fileExists(atPath: name(number)) {
            try files.moveItem(atPath: name(number), toPath: name(number + 1))
        }
    }
}
