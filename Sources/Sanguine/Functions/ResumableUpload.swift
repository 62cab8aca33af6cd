import Foundation
import SanguineModel

/// Sends a large file to the server in parts, and continues after a lost connection, a restart of
/// the app or one of the server (tus 1.0, see `POST /v1/uploads`).
///
/// Nothing is stored on the device: the idempotency key of the upload follows from the content, so
/// the server finds the upload for a later attempt with the same file. An attempt that is cancelled
/// leaves its bytes on the server, which removes them after a day.
struct ResumableUpload: Sendable {
    private static let version = ["Tus-Resumable": "1.0.0"]

    /// The outcome of an attempt.
    enum Outcome: Sendable {
        case stored(BlobFacts)
        /// The server is older than resumable uploads.
        case unsupported
    }

    let sender: CallSender
    let source: UploadSource
    let report: UploadReport

    /// The upload on the server.
    private struct Place {
        var path: String
        var offset: Int64
        var isFinished: Bool
    }

    /// Sends the file.
    ///
    /// The attempts that failed are counted from the last byte that the server has stored, so a
    /// slow network may interrupt a long upload as often as it likes.
    ///
    /// - Throws: A problem of the server; `malformed_body` if the file has changed in the meantime;
    ///   ``SanguineError/cancelled``.
    func run() async throws(SanguineError) -> Outcome {
        let schedule = RetrySchedule(attempts: BalanceLimits.callAttempts)
        let key = try await source.key()
        var failures = 0
        var stored: Int64 = -1
        while true {
            do throws(SanguineError) {
                guard var place = try await begin(key) else { return .unsupported }
                while true {
                    if place.offset > stored { (stored, failures) = (place.offset, 0) }
                    if place.isFinished { break }
                    if Task.isCancelled { throw .cancelled }
                    place = try await send(from: place)
                }
                return .stored(try await facts(of: place))
            } catch {
                if Task.isCancelled { throw .cancelled }
                failures += 1
                var random = sender.configuration.random
                let pause: Duration?
                if error.isOfPosition {
                    pause =
                        failures < schedule.attempts
                        ? schedule.backoff(afterFailures: failures, using: &random) : nil
                } else {
                    pause = schedule.delay(afterFailures: failures, of: error, using: &random)
                }
                guard let delay = pause,
                    (try? await sender.configuration.delay.sleep(for: delay)) != nil
                else { throw Task.isCancelled ? .cancelled : error }
            }
        }
    }

    /// Begins the upload, or finds the earlier one.
    ///
    /// - Returns: The upload; `nil` if the server does not know resumable uploads.
    private func begin(_ key: String) async throws(SanguineError) -> Place? {
        var request = try TransportRequest(
            method: "POST",
            base: sender.call.server,
            path: "/v1/uploads",
            headers: Self.version
        )
        request.headers.setHeader("Idempotency-Key", key)
        request.headers.setHeader("Upload-Length", String(source.size))
        let response: TransportResponse
        do throws(SanguineError) {
            response = try await sender.call.send(request)
        } catch {
            // An older server answers 404 or 405. The account itself may be missing as well: the
            // simple upload then says so.
            guard let code = error.asProblem?.code, code == .notFound || code == .methodNotAllowed
            else { throw error }
            return nil
        }
        guard let path = response.header("location"), path.hasPrefix("/v1/uploads/"),
            let offset = Self.offset(of: response)
        else { throw .transport(.invalid("The response has no upload.")) }
        return Place(
            path: path,
            offset: offset,
            isFinished: response.header("sanguine-blob") != nil
        )
    }

    /// Sends the next part.
    private func send(from place: Place) async throws(SanguineError) -> Place {
        let part = try await source.bytes(from: place.offset, count: ClientLimits.uploadPartBytes)
        var request = try TransportRequest(
            method: "PATCH",
            base: sender.call.server,
            path: place.path,
            headers: Self.version
        )
        request.headers.setHeader("Content-Type", "application/offset+octet-stream")
        request.headers.setHeader("Upload-Offset", String(place.offset))
        request.body = part
        let size = source.size
        let progress = UploadReport(beat: report.goesOn) { [report] progress in
            report.report(
                UploadProgress(sentBytes: place.offset + progress.sentBytes, totalBytes: size)
            )
        }
        let response = try await sender.call.send(request, within: nil, progress)
        guard let offset = Self.offset(of: response), offset > place.offset || part.isEmpty else {
            throw .transport(.invalid("The response has no offset."))
        }
        report.report(UploadProgress(sentBytes: offset, totalBytes: size))
        return Place(
            path: place.path,
            offset: offset,
            isFinished: response.header("sanguine-blob") != nil
        )
    }

    private func facts(of place: Place) async throws(SanguineError) -> BlobFacts {
        let status = try await sender.call.get(place.path, as: UploadStatus.self).value
        guard let file = status.file else {
            throw .transport(.invalid("The finished upload has no file."))
        }
        return file
    }

    private static func offset(of response: TransportResponse) -> Int64? {
        response.header("upload-offset").flatMap { Int64($0) }
    }
}

extension SanguineError {
    /// Whether the server has other bytes of the upload than the client assumes: the answer to a
    /// part was lost, or the upload has expired.
    fileprivate var isOfPosition: Bool {
        guard let code = asProblem?.code else { return false }
        return code == .offsetMismatch || code == .notFound
    }
}

/// The bytes of a file that is uploaded in parts.
struct UploadSource: Sendable {
    /// The content: bytes in memory, or a file.
    private enum Content: Sendable {
        case data(Data)
        case file(URL, changedAt: Date?)
    }

    private let content: Content
    /// The size in bytes.
    let size: Int64

    /// Creates a source for a body that is large enough to be sent in parts; `nil` for others.
    init?(_ body: RequestBody) {
        switch body.content {
        case .data(let data):
            (content, size) = (.data(data), Int64(data.count))
        case .file(let url):
            guard let bytes = url.readableFileSize else { return nil }
            (content, size) = (.file(url, changedAt: Self.changedAt(url)), bytes)
        case .parts: return nil
        }
        guard size > ClientLimits.resumableUploadBytes else { return nil }
    }

    /// The idempotency key of the upload, which follows from the content.
    ///
    /// - Throws: `malformed_body` if the file cannot be read; ``SanguineError/cancelled``.
    func key() async throws(SanguineError) -> String {
        // They only have to distinguish the uploads of one user on one day.
        var (first, second) = (ContentHash.seed, ContentHash.otherSeed)
        var offset: Int64 = 0
        while offset < size {
            let part = try await bytes(from: offset, count: 1 << 20)
            first = ContentHash.hash(part, first)
            second = ContentHash.hash(part, second)
            offset += Int64(part.count)
            if Task.isCancelled { throw .cancelled }
            await giveTurn()
        }
        return "upload-\(size)-\(ContentHash.hex(first))\(ContentHash.hex(second))"
    }

    /// Reads a part.
    ///
    /// - Throws: `malformed_body` if the file has changed since the upload began.
    func bytes(from offset: Int64, count: Int) async throws(SanguineError) -> Data {
        let count = min(count, Int(clamping: size - offset))
        switch content {
        case .data(let data):
            let start = data.startIndex + Int(offset)
            return Data(data[start..<start + count])
        case .file(let url, let changedAt):
            guard url.readableFileSize == size, Self.changedAt(url) == changedAt,
                let handle = try? FileHandle(forReadingFrom: url)
            else { throw .fileIsGone(url) }
            defer { try? handle.close() }  // It was only read.
            guard (try? handle.seek(toOffset: UInt64(offset))) != nil,
                let part = try? handle.read(upToCount: count), part.count == count
            else { throw .fileIsGone(url) }
            return part
        }
    }

    private static func changedAt(_ url: URL) -> Date? {
        (try? FileManager.default.attributesOfItem(atPath: url.path))?[.modificationDate] as? Date
    }
}
