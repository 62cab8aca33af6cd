import Foundation
import SanguineModel

/// A ``RequestBody`` in the form that a request needs: bytes or a file.
struct PreparedBody: Sendable {
    /// The bytes, if they are in memory.
    var data: Data?
    /// The file, if the bytes are not in memory.
    var file: URL?
    var type: String
    /// The file, if the client has created it.
    private var spooled: UploadSpool.File?

    /// Removes the file that was assembled on disk.
    func remove() { spooled?.remove() }
}

extension PreparedBody {
    /// The number of bytes of a file that are read at once.
    private static let chunk = 256 << 10

    /// Assembles a body; call ``remove()`` after it was sent.
    ///
    /// - Parameters:
    ///   - body: The body to send.
    ///   - seed: The beginning of the boundary between parts: letters, digits and hyphens.
    ///   - spool: The folder in which a form with files is assembled.
    ///   - report: Notified of progress. Default: none.
    /// - Throws: A problem with the code `body_too_large`; with `malformed_body` if a file cannot
    ///   be read; `store` if the disk failed.
    init(
        _ body: RequestBody,
        seed: String,
        in spool: UploadSpool,
        report: UploadReport? = nil
    ) async throws(SanguineError) {
        type = body.type
        switch body.content {
        case .data(let data):
            try Self.check(memory: data.count)
            self.data = data
        case .file(let url):
            try Self.check(files: Self.size(of: url))
            file = url
        case .parts(let parts):
            try Self.check(parts)
            var number = 0
            while true {
                let boundary = "\(seed)-\(number)"
                let form = Form(parts: parts, boundary: Data(boundary.utf8))
                type = "\(body.type); boundary=\(boundary)"
                if !form.hasFiles {
                    data = form.inMemory
                } else {
                    spooled = try await form.spooled(in: spool, report)
                    file = spooled?.url
                }
                if data != nil || file != nil { return }
                number += 1
            }
        }
    }

    private static func check(_ parts: [FormPart]) throws(SanguineError) {
        var (memory, files) = (0, Int64(0))
        for part in parts {
            memory += part.head.utf8.count
            switch part.body.content {
            case .data(let data): memory += data.count
            case .file(let url): files += try size(of: url)
            case .parts: break  // A part has no parts.
            }
            try check(memory: memory)
            try check(files: files + Int64(memory))
        }
    }

    private static func check(memory count: Int) throws(SanguineError) {
        let limit = ClientLimits.requestBodyBytes
        guard count <= limit else { throw .bodyTooLarge(limit: Int64(limit), "in memory") }
    }

    private static func check(files count: Int64) throws(SanguineError) {
        let limit = ClientLimits.uploadBytes
        guard count <= limit else { throw .bodyTooLarge(limit: limit, "in files") }
    }

    private static func size(of file: URL) throws(SanguineError) -> Int64 {
        guard let size = file.readableFileSize else { throw .fileIsGone(file) }
        return size
    }
}

extension PreparedBody {
    /// Parts with a boundary between them, which is valid if no part contains it.
    private struct Form {
        let parts: [FormPart]
        let boundary: Data

        var hasFiles: Bool {
            parts.contains { if case .file = $0.body.content { true } else { false } }
        }

        private var end: Data { Data("--".utf8) + boundary + Data("--\r\n".utf8) }

        private func head(of part: FormPart) -> Data {
            Data("--".utf8) + boundary + Data("\r\n\(part.head)\r\n\r\n".utf8)
        }

        /// The form, if it has no files; `nil` if a part contains the boundary.
        var inMemory: Data? {
            var form = Data()
            for part in parts {
                guard case .data(let data) = part.body.content else { continue }
                guard data.range(of: boundary) == nil else { return nil }
                form += head(of: part) + data + Data("\r\n".utf8)
            }
            return form + end
        }

        /// Writes the form to a file; returns `nil` if a part contains the boundary.
        func spooled(
            in spool: UploadSpool,
            _ report: UploadReport?
        ) async throws(SanguineError) -> UploadSpool.File? {
            let file: UploadSpool.File
            let handle: FileHandle
            do { (file, handle) = try spool.makeFile() } catch { throw .noRoom(error) }
            do throws(SanguineError) {
                let isRight = try await write(to: handle, report)
                do { try handle.close() } catch { throw SanguineError.noRoom(error) }
                if isRight { return file }
                file.remove()
                return nil
            } catch {
                file.remove()
                throw error
            }
        }

        private func write(
            to handle: FileHandle,
            _ report: UploadReport?
        ) async throws(SanguineError) -> Bool {
            for part in parts {
                try Self.put(head(of: part), handle)
                switch part.body.content {
                case .data(let data):
                    guard data.range(of: boundary) == nil else { return false }
                    try Self.put(data, handle)
                case .file(let url):
                    guard try await copy(url, to: handle, report) else { return false }
                case .parts: break
                }
                try Self.put(Data("\r\n".utf8), handle)
            }
            try Self.put(end, handle)
            return true
        }

        /// Copies a file; returns whether it is free of the boundary.
        private func copy(
            _ url: URL,
            to handle: FileHandle,
            _ report: UploadReport?
        ) async throws(SanguineError) -> Bool {
            guard let source = try? FileHandle(forReadingFrom: url) else { throw .fileIsGone(url) }
            defer { try? source.close() }  // It was only read.
            // The file may have grown since it was measured.
            var rest = ClientLimits.uploadBytes
            var tail = Data()
            while let bytes = try Self.next(of: source, url) {
                rest -= Int64(bytes.count)
                try PreparedBody.check(files: ClientLimits.uploadBytes - rest)
                let seen = tail + bytes
                guard seen.range(of: boundary) == nil else { return false }
                tail = Data(seen.suffix(boundary.count - 1))
                try Self.put(bytes, handle)
                report?.goesOn()
                if Task.isCancelled { throw .cancelled }
                await giveTurn()
            }
            return true
        }

        private static func next(of source: FileHandle, _ url: URL) throws(SanguineError) -> Data? {
            do {
                let bytes = try source.read(upToCount: PreparedBody.chunk)
                return bytes?.isEmpty == false ? bytes : nil
            } catch {
                throw .fileIsGone(url)
            }
        }

        private static func put(_ data: Data, _ handle: FileHandle) throws(SanguineError) {
            do { try handle.write(contentsOf: data) } catch { throw .noRoom(error) }
        }
    }
}

extension SanguineError {
    /// A file to be sent is missing, or cannot be read.
    static func fileIsGone(_ url: URL) -> SanguineError {
        let name = url.lastPathComponent
        return .problem(
            Problem(
                .malformedBody,
                "The file '\(name)' cannot be read. Keep it where it is until it is sent."
            )
        )
    }

    fileprivate static func bodyTooLarge(limit: Int64, _ place: String) -> SanguineError {
        .problem(Problem(.bodyTooLarge, "Send at most \(limit) bytes \(place) at once."))
    }

    fileprivate static func noRoom(_ error: any Error) -> SanguineError {
        .store(.writeFailed("a form to upload: \(error)"))
    }
}
