import SanguineModel
import SanguineTesting
import Synchronization

@testable import SanguineServer

/// An S3 storage that answers as a test's script says, without a network.
final class ScriptedS3: Sendable {
    /// Returns the reply to a request; the number counts from 1.
    typealias Script = @Sendable (_ request: S3Exchange, _ number: Int) async throws -> S3Reply

    static let accessKey = "AKIA-DO-NOT-TELL"
    static let secretKey = "do/not/tell+either"

    private let received = Mutex<[S3Exchange]>([])
    private let script: Script

    init(_ script: @escaping Script) { self.script = script }

    var requests: [S3Exchange] { received.withLock { $0 } }

    /// Returns a client without pauses.
    func client(
        keys: S3Keys? = nil,
        timeout: Duration = .seconds(30),
        clock: any WallClock = ManualWallClock(),
        delay: any Clock<Duration> = ContinuousClock(),
        random: Double = 0
    ) throws -> S3Client {
        guard
            let location = S3Location(
                endpoint: "https://s3.example.com",
                bucket: "photos",
                prefix: "files",
                addressing: .path
            )
        else { throw S3Failure.unreadable("The location of the test is not valid.") }
        let own = S3Credentials(
            accessKey: Secret(Self.accessKey),
            secretKey: Secret(Self.secretKey)
        )
        return S3Client(
            location: location,
            region: "eu-1",
            keys: keys ?? S3Keys(own),
            timeout: timeout,
            clock: clock,
            delay: delay,
            random: { random }
        ) { [self] request in
            let number = received.withLock { received in
                received.append(request)
                return received.count
            }
            return try await script(request, number)
        }
    }

    /// A refusal with a document.
    static func refusal(
        _ status: Int,
        _ code: String,
        _ message: String = "",
        more: String = "",
        headers: [String: String] = [:]
    ) -> S3Reply {
        let text = """
            <?xml version="1.0"?><Error><Code>\(code)</Code><Message>\(message)</Message>\
            \(more)</Error>
            """
        return S3Reply(status: status, headers: headers, body: Array(text.utf8))
    }

    /// The reply to a `GET` of a range of an object, or to a `HEAD`.
    static func object(_ bytes: [UInt8], _ request: S3Exchange) -> S3Reply {
        var headers = [
            "etag": "\"1\"", "last-modified": "Sat, 21 Nov 2026 19:00:00 GMT",
            "content-length": String(bytes.count),
        ]
        guard request.method == "GET", let range = range(of: request) else {
            return S3Reply(status: 200, headers: headers)
        }
        guard range.lowerBound < bytes.count else { return refusal(416, "InvalidRange") }
        let end = min(range.upperBound, bytes.count - 1)
        headers["content-range"] = "bytes \(range.lowerBound)-\(end)/\(bytes.count)"
        let part = Array(bytes[range.lowerBound...end])
        headers["content-length"] = String(part.count)
        return S3Reply(status: 206, headers: headers, body: part)
    }

    private static func range(of request: S3Exchange) -> ClosedRange<Int>? {
        let text = request.headers.first { $0.name == "range" }?.value.dropFirst("bytes=".count)
        let ends = text?.split(separator: "-").compactMap { Int($0) } ?? []
        return ends.count == 2 ? ends[0]...ends[1] : nil
    }
}

extension S3Exchange {
    /// Returns the value of a header.
    func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }
}
