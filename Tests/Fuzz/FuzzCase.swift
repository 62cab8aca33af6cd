import SanguineTesting

/// The bytes of a case, generated from a seed.
struct FuzzCase: Sendable {
    /// The changed part: a body with a valid head, or everything.
    enum Kind: String, CaseIterable, Sendable {
        case body
        case stream
    }

    let bytes: [UInt8]

    init(_ kind: Kind, _ number: Int, seed: UInt64, token: String) {
        var random = SplitMix64(seed: seed &+ UInt64(number) &* 0x9E37_79B9_7F4A_7C15)
        switch kind {
        case .body: bytes = Self.body(token, &random)
        case .stream: bytes = Self.stream(token, &random)
        }
    }

    // MARK: - Bodies

    private static func body(_ token: String, _ random: inout SplitMix64) -> [UInt8] {
        let (method, path, template) = templates[
            Int.random(in: 0..<templates.count, using: &random)
        ]
        var body = Array(template.replacing("ID", with: identifier(&random)).utf8)
        for _ in 0..<Int.random(in: 0...4, using: &random) { change(&body, &random) }
        return head(method, path, token, body, &random) + body
    }

    private static func head(
        _ method: String,
        _ path: String,
        _ token: String,
        _ body: [UInt8],
        _ random: inout SplitMix64
    ) -> [UInt8] {
        let key = UInt64.random(in: 0...100_000, using: &random)
        return Array(
            """
            \(method) \(path) HTTP/1.1\r
            Host: localhost\r
            Authorization: Bearer \(token)\r
            Content-Type: application/json\r
            Idempotency-Key: fuzz-\(key)\r
            Content-Length: \(body.count)\r
            \r\n
            """.utf8
        )
    }

    /// Makes one change: of bytes, of the end, or by inserting a piece that is difficult to parse.
    private static func change(_ bytes: inout [UInt8], _ random: inout SplitMix64) {
        let place = Int.random(in: 0...bytes.count, using: &random)
        switch Int.random(in: 0..<8, using: &random) {
        case 0 where place < bytes.count:
            bytes[place] = .random(in: 0...255, using: &random)
        case 1:
            bytes.removeSubrange(place...)
        case 2 where place < bytes.count:
            bytes.removeSubrange(place..<min(bytes.count, place + 8))
        case 3 where place < bytes.count:
            let piece = bytes[place..<min(bytes.count, place + 32)]
            bytes.insert(contentsOf: piece, at: Int.random(in: 0...bytes.count, using: &random))
        case 4:
            // Deep nesting, or great length.
            let piece = Array(pieces[Int.random(in: 0..<pieces.count, using: &random)].utf8)
            let count = Int.random(in: 1...200, using: &random)
            bytes.insert(contentsOf: repeatElement(piece, count: count).joined(), at: place)
        default:
            let piece = pieces[Int.random(in: 0..<pieces.count, using: &random)]
            bytes.insert(contentsOf: piece.utf8, at: place)
        }
    }

    private static func identifier(_ random: inout SplitMix64) -> String {
        let text = String(UInt64.random(in: 0..<(1 << 48), using: &random), radix: 16)
        let digits = String(repeating: "0", count: 12 - text.count) + text
        return "0199f3c8-2f6b-7c1e-9a54-\(digits)"
    }

    private static let templates: [(String, String, String)] = [
        ("POST", "/v1/spend", #"{"amount":1,"reason":"fuzz"}"#),
        ("POST", "/v1/holds", #"{"amount":1,"expiresIn":60}"#),
        ("POST", "/v1/holds/ID/capture", #"{"amount":1}"#),
        ("POST", "/v1/quotas/readings/consume", #"{"amount":1}"#),
        ("POST", "/v1/functions/echo", #"{"input":{"text":"a"}}"#),
        ("POST", "/v1/functions/echo/quote", #"{"input":{"text":"a"}}"#),
        ("PATCH", "/v1/account", #"{"displayName":"A","settings":{"a":{"b":[1,2.5,null]}}}"#),
        ("POST", "/v1/sessions/refresh", #"{"refreshToken":"AAAA.BBBB"}"#),
        ("POST", "/v1/live/tickets", "{}"),
        ("GET", "/v1/collections/posts/records?where.createdAt=1.5e3&order=-createdAt", ""),
        ("GET", "/v1/sync/pull?since=0&limit=1&operations=ID", ""),
        ("GET", "/v1/collections/notes/records/ID", ""),
        (
            "POST", "/v1/accounts/guest",
            #"{"deviceId":"a-fuzzing-device-ID","deviceSecret":"\#(secret)","timeZone":"UTC"}"#
        ),
        (
            "POST", "/v1/sync/push",
            #"""
            {"device":"a-fuzzing-device-00","operations":[{"id":"ID","sequence":1,"lane":"a",
            "mutator":"record.create","arguments":{"collection":"notes","id":"ID",
            "fields":{"title":"é","n":1.5e3,"list":[true,false,null,{"a":"b"}]}}}]}
            """#
        ),
        (
            "POST", "/v1/sync/push",
            #"""
            {"device":"a-fuzzing-device-00","operations":[{"id":"ID","sequence":1,"lane":"a",
            "mutator":"record.increment","arguments":{"collection":"posts","id":"a","field":"n",
            "by":1}}]}
            """#
        ),
    ]

    private static let secret = String(repeating: "A", count: 43)

    private static let pieces = [
        "{", "}", "[", "]", ",", ":", "\"", "\\", "\\u0000", "\\ud800", "\\udc00\\ud800", "\u{0}",
        "\u{FEFF}", "\u{E9}", "e\u{301}", marks(2), marks(300), marks(20_000), "null", "true", "-",
        "-0", "1e400", "1e-400",
        "1e-9223372036854775808", "0.1e+2",
        "99999999999999999999", "9223372036854775807", "-9223372036854775808", "1.0",
        "1.00000000000000000000000000000001", "18446744073709551615", "{\"a\":",
        "{\"a\(marks(300))\":1}", "{\"a\(marks(20_000))\":1}", "?a\(marks(20))=\(marks(40))", "[[",
        "\"amount\":", "\"id\":\"..\"",
        "\"ID\"", "$balance", "../..", "%00", "\r\n", "\r\n\r\n", "\t", " ",
    ]

    // MARK: - Bytes

    private static func stream(_ token: String, _ random: inout SplitMix64) -> [UInt8] {
        switch Int.random(in: 0..<4, using: &random) {
        case 0:
            return (0..<Int.random(in: 0...512, using: &random)).map { _ in
                .random(in: 0...255, using: &random)
            }
        case 1:
            let lines = (0..<Int.random(in: 1...12, using: &random)).map { _ in
                words[Int.random(in: 0..<words.count, using: &random)]
            }
            return Array(lines.joined(separator: "\r\n").utf8) + Array("\r\n\r\n".utf8)
        default:
            var bytes = body(token, &random)
            if Bool.random(using: &random) { bytes += body(token, &random) }
            for _ in 0..<Int.random(in: 1...6, using: &random) {
                // Near the start, in the head.
                let place = Int.random(in: 0..<max(1, min(bytes.count, 160)), using: &random)
                let word = Array(words[Int.random(in: 0..<words.count, using: &random)].utf8)
                switch Int.random(in: 0..<3, using: &random) {
                case 0 where place < bytes.count:
                    bytes[place] = .random(in: 0...255, using: &random)
                case 1: bytes.insert(contentsOf: word, at: min(place, bytes.count))
                default: bytes.removeSubrange(min(place, bytes.count)..<min(bytes.count, place + 3))
                }
            }
            return bytes
        }
    }

    private static let words = [
        "GET / HTTP/1.1", "GET /v1/balance HTTP/1.0", "POST /v1/spend HTTP/1.1", "PUT * HTTP/1.1",
        "GET http://[::1 HTTP/1.1", "GET /%ZZ?a=%FF HTTP/1.1", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET /health/live HTTP/9.9", "BREW /pot HTTP/1.1", "CONNECT a:1 HTTP/1.1",
        "OPTIONS * HTTP/1.1", "Host: localhost", "Host: a\r\nHost: b", "Host:", "host : x",
        "Content-Length: 5", "Content-Length: -1", "Content-Length: 99999999999999999999",
        "Content-Length: 5\r\nContent-Length: 6", "Transfer-Encoding: chunked",
        "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: x", "5\r\nhello\r\n0\r\n",
        "fffffffffffffffff\r\n", "-1\r\n", "Expect: 100-continue", "Connection: close",
        "Connection: upgrade\r\nUpgrade: h2c", "Authorization: Bearer", "Authorization: Bearer .",
        "Cookie: a=b", "X-User-Id: \u{0}", ": no name", "\u{0}", "\u{1}: a", " folded",
        "Last-Event-ID: -1", "Range: bytes=0-", "If-None-Match: *", "Accept-Encoding: gzip",
        "Content-Encoding: gzip", "\r\n", "\n", "\r", "\t", "Accept: a\(marks(20_000))",
        "GET /v1/a\(marks(20_000)) HTTP/1.1", "Authorization: Bearer a\(marks(20_000))",
        "GET /v1/collections/a\(percentMarks(5_000))/records HTTP/1.1",
    ]

    /// Combining marks of two alternating classes, which must be sorted to be normalized.
    private static func marks(_ count: Int) -> String {
        String(repeating: "\u{301}\u{316}", count: count / 2)
    }

    private static func percentMarks(_ count: Int) -> String {
        String(repeating: "%CC%81%CC%96", count: count / 2)
    }
}
