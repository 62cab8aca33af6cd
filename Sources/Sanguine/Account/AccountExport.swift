import Foundation

/// Writes the export of an account to a file, under another name until it is complete.
struct AccountExport: Sendable {
    private let request: TransportRequest
    private let user: UserScope
    private let file: URL
    private let partial: URL

    init(_ request: TransportRequest, of user: UserScope, to file: URL) {
        (self.request, self.user, self.file) = (request, user, file)
        partial = file.deletingLastPathComponent()
            .appending(path: ".\(file.lastPathComponent).\(UUID()).partial")
    }

    func run() async throws(SanguineError) {
        do throws(SanguineError) {
            try await download()
            try replace()
        } catch {
            try? FileManager.default.removeItem(at: partial)
            throw error
        }
    }

    private func download() async throws(SanguineError) {
        let call = user.functions.call
        guard call.exchange.transport is any StreamingTransport else {
            let response = try await call.send(request)
            return try write { try response.body.write(to: partial) }
        }
        let stream = try await call.stream(request)
        defer { stream.cancel() }
        guard
            FileManager.default.createFile(
                atPath: partial.path,
                contents: nil,
                attributes: [.posixPermissions: 0o600]
            ), let handle = FileHandle(forWritingAtPath: partial.path)
        else { throw .store(.writeFailed("the export. Choose a folder that can be written")) }
        defer { try? handle.close() }
        while let bytes = try await next(of: stream) {
            try user.authorizer.check()
            try write { try handle.write(contentsOf: bytes) }
        }
    }

    private func next(of stream: TransportStream) async throws(SanguineError) -> Data? {
        do {
            return try await stream.next()
        } catch {
            throw .transport(error)
        }
    }

    private func replace() throws(SanguineError) {
        try write {
            if FileManager.default.fileExists(atPath: file.path) {
                _ = try FileManager.default.replaceItemAt(file, withItemAt: partial)
            } else {
                try FileManager.default.moveItem(at: partial, to: file)
            }
        }
    }

    private func write(_ body: () throws -> Void) throws(SanguineError) {
        do {
            try body()
        } catch {
            throw .store(.writeFailed("the export: \(error)"))
        }
    }
}
