public import Foundation
import SanguineModel

/// A body that is not the JSON of a value: bytes, a file, or a form.
///
/// ```swift
/// try await request.post("photos", .multipart([.file("photo", at: url, type: "image/jpeg")]))
/// ```
///
/// It is put together when the request goes out, in memory, and may be as large as
/// ``ClientLimits/requestBodyBytes``. The same operation always sends the same bytes.
public struct RequestBody: Sendable {
    fileprivate enum Content: Sendable {
        case data(Data)
        case file(URL)
        case parts([FormPart])
    }

    fileprivate let content: Content
    fileprivate let type: String

    /// Bytes.
    ///
    /// - Parameters:
    ///   - data: The bytes.
    ///   - type: The media type, unless the request's header fields name one. Default:
    ///     `application/octet-stream`.
    /// - Returns: The body.
    public static func data(
        _ data: Data,
        type: String = "application/octet-stream"
    ) -> RequestBody {
        RequestBody(content: .data(data), type: type)
    }

    /// The content of a file, which is read when the request goes out.
    ///
    /// - Parameters:
    ///   - url: The file. It must stay where it is until the mutation is sent.
    ///   - type: The media type, unless the request's header fields name one. Default:
    ///     `application/octet-stream`.
    /// - Returns: The body.
    public static func file(
        _ url: URL,
        type: String = "application/octet-stream"
    ) -> RequestBody {
        RequestBody(content: .file(url), type: type)
    }

    /// A form, as `multipart/form-data` (RFC 7578).
    ///
    /// - Parameter parts: Its fields and files, in this order.
    /// - Returns: The body.
    public static func multipart(_ parts: [FormPart]) -> RequestBody {
        RequestBody(content: .parts(parts), type: "multipart/form-data")
    }
}

/// A field or a file of a form.
public struct FormPart: Sendable {
    fileprivate let name: String
    fileprivate let fileName: String?
    fileprivate let body: RequestBody

    /// A field with a text.
    public static func field(_ name: String, _ text: String) -> FormPart {
        let body = RequestBody.data(Data(text.utf8), type: "text/plain; charset=utf-8")
        return FormPart(name: name, fileName: nil, body: body)
    }

    /// A file whose bytes are at hand.
    ///
    /// - Parameters:
    ///   - name: The field's name.
    ///   - data: The bytes.
    ///   - fileName: What the backend is told that the file is called.
    ///   - type: The media type. Default: `application/octet-stream`.
    /// - Returns: The part.
    public static func data(
        _ name: String,
        _ data: Data,
        fileName: String,
        type: String = "application/octet-stream"
    ) -> FormPart {
        FormPart(name: name, fileName: fileName, body: .data(data, type: type))
    }

    /// A file, which is read when the request goes out.
    ///
    /// - Parameters:
    ///   - name: The field's name.
    ///   - url: The file. It must stay where it is until the mutation is sent.
    ///   - fileName: What the backend is told that the file is called. Default: what it is called.
    ///   - type: The media type. Default: `application/octet-stream`.
    /// - Returns: The part.
    public static func file(
        _ name: String,
        at url: URL,
        fileName: String? = nil,
        type: String = "application/octet-stream"
    ) -> FormPart {
        let fileName = fileName ?? url.lastPathComponent
        return FormPart(name: name, fileName: fileName, body: .file(url, type: type))
    }
}

extension RequestBody {
    /// The bytes and their media type.
    ///
    /// - Parameter seed: What the boundary between parts begins with: letters, digits and hyphens.
    /// - Returns: Both.
    /// - Throws: A problem with the code `body_too_large`; with `malformed_body` if a file cannot
    ///   be read.
    func bytes(seed: String) throws(SanguineError) -> (data: Data, type: String) {
        let limit = ClientLimits.requestBodyBytes
        switch content {
        case .data(let data):
            guard data.count <= limit else { throw .bodyTooLarge }
            return (data, type)
        case .file(let url):
            return (try Self.read(url, upTo: limit), type)
        case .parts(let parts):
            var read: [(head: String, data: Data)] = []
            var rest = limit
            for part in parts {
                let data = try part.body.bytes(seed: seed).data
                guard data.count <= rest else { throw .bodyTooLarge }
                rest -= data.count
                read.append((part.head, data))
            }
            let boundary = Self.boundary(seed, in: read.map(\.data))
            var body = Data()
            for (head, data) in read {
                body += Data("--\(boundary)\r\n\(head)\r\n\r\n".utf8) + data + Data("\r\n".utf8)
            }
            body += Data("--\(boundary)--\r\n".utf8)
            guard body.count <= limit else { throw .bodyTooLarge }
            return (body, "\(type); boundary=\(boundary)")
        }
    }

    private static func read(_ url: URL, upTo limit: Int) throws(SanguineError) -> Data {
        let data: Data
        do {
            let file = try FileHandle(forReadingFrom: url)
            // What fails here has failed before.
            defer { try? file.close() }
            data = try file.read(upToCount: limit + 1) ?? Data()
        } catch {
            let name = url.lastPathComponent
            throw .problem(
                Problem(.malformedBody, "Keep the file '\(name)' until it is sent: \(error)")
            )
        }
        guard data.count <= limit else { throw .bodyTooLarge }
        return data
    }

    /// The same for the same content, so that what is sent again is what was sent.
    private static func boundary(_ seed: String, in contents: [Data]) -> String {
        var number = 0
        while true {
            let boundary = "\(seed)-\(number)"
            let bytes = Data(boundary.utf8)
            guard contents.contains(where: { $0.range(of: bytes) != nil }) else { return boundary }
            number += 1
        }
    }
}

extension FormPart {
    /// The header fields of the part (RFC 7578, section 4.2), without a line's end.
    fileprivate var head: String {
        let file = fileName.map { "; filename=\"\(Self.quoted($0))\"" } ?? ""
        return """
            Content-Disposition: form-data; name="\(Self.quoted(name))"\(file)\r
            Content-Type: \(body.type)
            """
    }

    // As browsers do (WHATWG HTML, multipart/form-data encoding algorithm).
    private static func quoted(_ text: String) -> String {
        text.replacingOccurrences(of: "\r", with: "%0D")
            .replacingOccurrences(of: "\n", with: "%0A")
            .replacingOccurrences(of: "\"", with: "%22")
    }
}

extension SanguineError {
    fileprivate static var bodyTooLarge: SanguineError {
        .problem(
            Problem(.bodyTooLarge, "Send \(ClientLimits.requestBodyBytes) bytes at most at once.")
        )
    }
}
