import AsyncHTTPClient
import Foundation
import Logging
import NIOCore
import NIOHTTP1
import SanguineAuthority
import SanguineModel
import Synchronization

/// Queries Apple's DeviceCheck service over HTTP.
///
/// A request has ``pauses`` and one attempt more. Attempts that found no answer are repeated: after
/// an error of the network, and with 429 and 5xx. Each one has its own connection, because new
/// guests are rare and Apple closes idle connections.
///
/// Mutable state: `running`, guarded by its mutex, and bounded by ``atOnce``.
final class HTTPDeviceCheck: DeviceCheckClient {
    /// A response of Apple.
    struct Response: Hashable, Sendable {
        var status: Int
        var body: [UInt8]
    }

    /// Sends a request.
    typealias Post = @Sendable (_ url: String, HTTPHeaders, [UInt8]) async throws -> Response

    /// The number of requests that run at the same time; more fail as unavailable.
    static let atOnce = 32
    /// The time limit for one attempt.
    static let timeout = TimeAmount.seconds(3)
    /// The maximum size of a response in bytes.
    static let responseBytes = 1 << 14
    /// The pauses between attempts.
    static let pauses: [Duration] = [.milliseconds(200), .seconds(1)]

    private let key: DeviceCheckKey
    private let server: String
    private let usesBits: Bool
    private let clock: any WallClock
    private let delay: any Clock<Duration>
    private let pauses: [Duration]
    private let logger: Logger
    private let post: Post
    private let running = Mutex(0)

    /// Creates a client.
    ///
    /// - Parameters:
    ///   - key: The key that signs the requests.
    ///   - server: The URL of the server, without a path.
    ///   - usesBits: Whether the bits are read and written; otherwise only tokens are validated.
    ///   - clock: The clock for the times in requests.
    ///   - delay: The clock for pauses.
    ///   - pauses: The pauses between attempts.
    ///   - logger: The logger.
    ///   - post: Sends a request.
    init(
        key: DeviceCheckKey,
        server: String,
        usesBits: Bool,
        clock: any WallClock,
        delay: any Clock<Duration>,
        pauses: [Duration] = HTTPDeviceCheck.pauses,
        logger: Logger,
        post: @escaping Post = HTTPDeviceCheck.overHTTP
    ) {
        self.key = key
        self.server = server
        self.usesBits = usesBits
        self.clock = clock
        self.delay = delay
        self.pauses = pauses
        self.logger = logger
        self.post = post
    }

    func query(_ token: String) async throws(DeviceCheckError) -> DeviceCheckBits {
        guard usesBits else {
            _ = try await send("validate_device_token", Body(token))
            return DeviceCheckBits()
        }
        let body = try await send("query_two_bits", Body(token))
        if let bits = try? JSONDecoder().decode(Bits.self, from: Data(body)) {
            return DeviceCheckBits(hasHadGrant: bits.bit0, isBlocked: bits.bit1)
        }
        // For a device without bits, Apple sends a text with the status 200, as a proxy may do.
        guard Self.text(body).contains("bit state") else {
            throw unavailable("the response is none of DeviceCheck")
        }
        return DeviceCheckBits()
    }

    func update(_ token: String, _ bits: DeviceCheckBits) async throws(DeviceCheckError) {
        guard usesBits else { return }
        _ = try await send("update_two_bits", Body(token, bits))
    }
}

// MARK: - Requests

extension HTTPDeviceCheck {
    /// The body of a request, without the members that differ in each attempt.
    private struct Body {
        let token: String
        let bits: DeviceCheckBits?

        init(_ token: String, _ bits: DeviceCheckBits? = nil) {
            (self.token, self.bits) = (token, bits)
        }
    }

    private struct Message: Encodable {
        var device_token: String
        var transaction_id: String
        var timestamp: Int64
        var bit0: Bool?
        var bit1: Bool?
    }

    private struct Bits: Decodable {
        var bit0: Bool
        var bit1: Bool
    }

    private func send(_ path: String, _ body: Body) async throws(DeviceCheckError) -> [UInt8] {
        let isAdmitted = running.withLock { running in
            guard running < Self.atOnce else { return false }
            running += 1
            return true
        }
        guard isAdmitted else { throw unavailable("\(Self.atOnce) requests are running") }
        defer { running.withLock { $0 -= 1 } }
        var reason = ""
        for pause in pauses.map(Optional.some) + [nil] {
            let response: Response
            do {
                response = try await attempt(path, body)
                if let body = try result(of: response) { return body }
                reason = "the status is \(response.status)"
            } catch let error as DeviceCheckError {
                throw error
            } catch {
                reason = "\(error)"
            }
            guard let pause, (try? await delay.sleep(for: pause)) != nil else { break }
        }
        throw unavailable(reason)
    }

    private func attempt(_ path: String, _ body: Body) async throws -> Response {
        let now = clock.now()
        let message = Message(
            device_token: body.token,
            transaction_id: UUID().uuidString.lowercased(),
            timestamp: now.millisecondsSince1970,
            bit0: body.bits?.hasHadGrant,
            bit1: body.bits?.isBlocked
        )
        let headers: HTTPHeaders = [
            "Authorization": "Bearer \(try await key.token(at: now))",
            "Content-Type": "application/json",
        ]
        let bytes = Array(try JSONEncoder().encode(message))
        return try await post("\(server)/v1/\(path)", headers, bytes)
    }

    /// Returns the body of a success; `nil` if the request may be repeated.
    private func result(of response: Response) throws(DeviceCheckError) -> [UInt8]? {
        switch response.status {
        case 200: return response.body
        case 429, 500...: return nil
        // Apple has one status for a bad token of a device and a bad one of the server.
        case 400 where Self.text(response.body).contains("device token"): throw .invalidToken
        case 400, 401, 403:
            logger.error(
                """
                Apple's DeviceCheck does not accept the server's key. Check 'deviceCheck.keyId', \
                'deviceCheck.teamId' and 'deviceCheck.keyFile', and the clock.
                """,
                metadata: ["status": "\(response.status)"]
            )
            throw .unavailable
        default: throw unavailable("the status is \(response.status)")
        }
    }

    private func unavailable(_ reason: String) -> DeviceCheckError {
        logger.warning(
            "Apple's DeviceCheck could not be asked.",
            metadata: ["reason": "\(reason)"]
        )
        return .unavailable
    }

    private static func text(_ body: [UInt8]) -> String {
        String(decoding: body.prefix(256), as: UTF8.self).lowercased()
    }

    /// Sends a request on a connection of its own.
    static func overHTTP(
        _ url: String,
        _ headers: HTTPHeaders,
        _ body: [UInt8]
    ) async throws -> Response {
        var settings = HTTPClient.Configuration(redirectConfiguration: .disallow)
        settings.timeout = .init(connect: timeout, read: timeout)
        settings.connectionPool.retryConnectionEstablishment = false
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: settings)
        let result: Result<Response, any Error>
        do {
            var request = HTTPClientRequest(url: url)
            request.method = .POST
            request.headers = headers
            request.body = .bytes(ByteBuffer(bytes: body))
            let response = try await client.execute(request, timeout: timeout)
            let bytes = try await response.body.collect(upTo: responseBytes)
            result = .success(
                Response(
                    status: Int(response.status.code),
                    body: Array(bytes.readableBytesView)
                )
            )
        } catch {
            result = .failure(error)
        }
        try? await client.shutdown()
        return try result.get()
    }
}
