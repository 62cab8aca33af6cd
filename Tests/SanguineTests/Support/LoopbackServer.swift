import Foundation
import SanguineTesting
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// A real HTTP server on a free port of this machine, small enough to misbehave on demand.
///
/// Each connection is answered once, according to the request's path, on its own thread: `/hello`
/// answers, `/large/<bytes>` answers with that many bytes, `/chunked/<bytes>` does the same without
/// announcing the size, `/half` disconnects in the middle of the body, `/silent` never answers,
/// `/away` redirects to another origin, `/cookie` sets a cookie, and `/echo` answers with the
/// request's text. `/endless/<bytes>` sends that many bytes without announcing the size,
/// `/announced/<bytes>` announces it, and `/picture/<bytes>` is an image; ``sentBytes`` counts the
/// bytes that the client accepts. A test may add its own answers, which take precedence.
final class LoopbackServer: Sendable {
    /// An answer of a test's own backend.
    struct Reply: Sendable {
        var status = 200
        /// The lines of the head.
        var headers: [String] = []
        var body = ""
    }

    /// Answers a request, given its target and its text.
    ///
    /// It may block its thread.
    typealias Backend = @Sendable (_ target: String, _ text: String) -> Reply?

    let port: UInt16
    private let backend: Backend
    private let listener: Int32
    private let requests = WatchedState<[String]>([])
    private let isStopped = Mutex(false)
    private let streamed = Mutex((bytes: 0, isOver: false))

    init(_ backend: @escaping Backend = { _, _ in nil }) throws {
        self.backend = backend
        #if canImport(Darwin)
        let stream = SOCK_STREAM
        #else
        let stream = Int32(SOCK_STREAM.rawValue)
        #endif
        listener = socket(AF_INET, stream, 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let listener = listener
        let isListening = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                bind(listener, pointer, length) == 0 && listen(listener, 64) == 0
                    && getsockname(listener, pointer, &length) == 0
            }
        }
        guard listener >= 0, isListening else { throw POSIXError(.EADDRNOTAVAIL) }
        port = UInt16(bigEndian: address.sin_port)
        Thread.detachNewThread { [self] in
            while !isStopped.withLock({ $0 }) {
                let connection = accept(listener, nil, nil)
                // A connection that was closed before it was accepted is no reason to stop.
                guard connection >= 0 || [ECONNABORTED, EINTR].contains(errno) else { break }
                if connection >= 0 { Thread.detachNewThread { [self] in serve(connection) } }
            }
            isStopped.withLock { isStopped in
                isStopped = true
                close(listener)
            }
        }
    }

    /// The texts of the requests received so far.
    var received: [String] { requests.value }

    /// The number of bytes of a large body that the client accepted, once the connection is closed.
    var sentBytes: Int? { streamed.withLock { $0.isOver ? $0.bytes : nil } }

    /// Returns when that many complete requests have arrived.
    func waitForRequests(
        _ count: Int,
        fileID: String = #fileID,
        line: Int = #line
    ) async throws {
        try await requests.wait(
            for: "\(count) requests",
            found: { "\($0.count) have arrived" },
            fileID: fileID,
            line: line
        ) {
            $0.count >= count
        }
    }

    func url(_ path: String) -> URL {
        URL(string: "http://127.0.0.1:\(port)\(path)") ?? URL(filePath: path)
    }

    func stop() {
        // Under the lock, and once: the accepting thread closes the descriptor afterwards. If it
        // were closed earlier, the next server could get the same number.
        isStopped.withLock { isStopped in
            guard !isStopped else { return }
            isStopped = true
            shutdown(listener, Int32(SHUT_RDWR))
            let nothing = open("/dev/null", O_RDONLY)
            dup2(nothing, listener)
            close(nothing)
        }
    }

    private func serve(_ connection: Int32) {
        defer { close(connection) }
        Self.surviveHangUp(connection)
        var buffer = [UInt8](repeating: 0, count: 65_536)
        var text = ""
        while !text.contains("\r\n\r\n") {
            let count = recv(connection, &buffer, buffer.count, 0)
            guard count > 0 else { return }
            text += String(decoding: buffer[..<count], as: UTF8.self)
        }
        // Reads the whole body, because closing a socket with unread bytes resets the connection.
        while text.utf8.count < Self.length(of: text) {
            let count = recv(connection, &buffer, buffer.count, 0)
            guard count > 0 else { return }
            text += String(decoding: buffer[..<count], as: UTF8.self)
        }
        requests.withLock { $0.append(text) }
        let target = text.split(separator: " ").dropFirst().first ?? "/"
        if let reply = backend(String(target), text) {
            let head = ["HTTP/1.1 \(reply.status) X", "Content-Length: \(reply.body.utf8.count)"]
            let lines = head + reply.headers + ["Connection: close", "", reply.body]
            write(connection, lines.joined(separator: "\r\n"))
            return
        }
        let path = target.prefix { $0 != "?" }
        let size = Int(path.split(separator: "/").last ?? "") ?? 0
        switch path.split(separator: "/").first {
        case "hello": answer(connection, "Content-Length: 5\r\nX-Mood: good\r\n", "hello")
        case "echo": answer(connection, "Content-Length: \(text.utf8.count)\r\n", text)
        case "cookie": answer(connection, "Content-Length: 0\r\nSet-Cookie: a=1\r\n", "")
        case "large":
            answer(connection, "Content-Length: \(size)\r\n", String(repeating: "x", count: size))
        case "chunked": answer(connection, "", String(repeating: "x", count: size))
        case "endless": stream(connection, "", size)
        case "announced": stream(connection, "Content-Length: \(size)\r\n", size)
        case "picture":
            let head = "Content-Type: image/jpeg\r\nContent-Length: \(size)\r\n"
            stream(connection, head, size)
        case "half": answer(connection, "Content-Length: 100\r\n", "only this")
        case "away":
            write(
                connection,
                "HTTP/1.1 302 Found\r\nLocation: http://localhost:\(port)/hello\r\n"
                    + "Content-Length: 0\r\nConnection: close\r\n\r\n"
            )
        default:  // Until the client disconnects.
            while case let count = recv(connection, &buffer, buffer.count, 0), count > 0 {
                continue
            }
        }
    }

    // The length of head and body together, in bytes.
    private static func length(of text: String) -> Int {
        guard let head = text.range(of: "\r\n\r\n") else { return 0 }
        let field = text[..<head.lowerBound].lowercased().split(separator: "\r\n")
            .first { $0.hasPrefix("content-length:") }
        let body = field.flatMap { Int($0.dropFirst(15).trimmingCharacters(in: .whitespaces)) }
        return text[..<head.upperBound].utf8.count + (body ?? 0)
    }

    private func answer(_ connection: Int32, _ headers: String, _ body: String) {
        write(connection, "HTTP/1.1 200 OK\r\n\(headers)Connection: close\r\n\r\n\(body)")
    }

    /// Sends a body for as long as the client accepts it.
    private func stream(_ connection: Int32, _ headers: String, _ size: Int) {
        answer(connection, headers, "")
        let part = String(repeating: "x", count: 65_536)
        var left = size
        while left > 0, write(connection, String(part.prefix(left))) {
            left -= part.utf8.count
            streamed.withLock { $0.bytes += part.utf8.count }
        }
        streamed.withLock { $0.isOver = true }
    }

    /// Makes writes to a disconnected client fail where `send` has no flag for it.
    private static func surviveHangUp(_ connection: Int32) {
        #if canImport(Darwin)
        var isOn: Int32 = 1
        let size = socklen_t(MemoryLayout<Int32>.size)
        setsockopt(connection, SOL_SOCKET, SO_NOSIGPIPE, &isOn, size)
        #endif
    }

    /// Returns whether everything was sent.
    @discardableResult
    private func write(_ connection: Int32, _ text: String) -> Bool {
        #if canImport(Darwin)
        let flags: Int32 = 0
        #else
        let flags = Int32(MSG_NOSIGNAL)
        #endif
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let sent = bytes.withUnsafeBytes { send(connection, $0.baseAddress, $0.count, flags) }
            guard sent > 0 else { return false }
            bytes = bytes.dropFirst(sent)
        }
        return true
    }
}
