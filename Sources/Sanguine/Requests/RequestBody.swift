public import Foundation
import SanguineModel

/// A body that is not the JSON of a value: bytes, a file, or a form.
///
/// ```swift
/// try await request.post("photos", .multipart([.file("photo", at: url, type: "image/jpeg")]))
/// ```
///
/// The body is assembled when the request is sent. Its bytes in memory are limited to
/// ``ClientLimits/requestBodyBytes``. Files are read in chunks while they are sent, and the whole
/// body is limited to ``ClientLimits/uploadBytes``. A form with files is assembled on disk, and
/// removed after it was sent, or at the next launch. Unless a file has changed, the same operation
/// always sends the same bytes.
public struct RequestBody: Sendable {
    enum Content: Sendable {
        case data(Data)
        case file(URL)
        case parts([FormPart])
    }

    let content: Content
    let type: String

    /// Creates a body from bytes.
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

    /// Creates a body from a file, which is read while the request is sent.
    ///
    /// - Parameters:
    ///   - url: The file. It must not be moved or removed until the mutation is sent.
    ///   - type: The media type, unless the request's header fields name one. Default:
    ///     `application/octet-stream`.
    /// - Returns: The body.
    public static func file(
        _ url: URL,
        type: String = "application/octet-stream"
    ) -> RequestBody {
        RequestBody(content: .file(url), type: type)
    }

    /// Creates a form, as `multipart/form-data` (RFC 7578).
    ///
    /// - Parameter parts: Its fields and files, in this order.
    /// - Returns: The body.
    public static func multipart(_ parts: [FormPart]) -> RequestBody {
        RequestBody(content: .parts(parts), type: "multipart/form-data")
    }
}

/// A field or a file of a form.
public struct FormPart: Sendable {
    let name: String
    let fileName: String?
    let body: RequestBody

    /// Creates a field that contains text.
    public static func field(_ name: String, _ text: String) -> FormPart {
        let body = RequestBody.data(Data(text.utf8), type: "text/plain; charset=utf-8")
        return FormPart(name: name, fileName: nil, body: body)
    }

    /// Creates a file from bytes in memory.
    ///
    /// - Parameters:
    ///   - name: The field's name.
    ///   - data: The bytes.
    ///   - fileName: The file name that is sent to the backend.
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

    /// Creates a file from one on disk, which is read while the request is sent.
    ///
    /// - Parameters:
    ///   - name: The field's name.
    ///   - url: The file. It must not be moved or removed until the mutation is sent.
    ///   - fileName: The file name that is sent to the backend. Default: the file's own name.
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

extension FormPart {
    /// The header fields of the part (RFC 7578, section 4.2), without the last line's end.
    var head: String {
        let file = fileName.map { "; filename=\"\(Self.quoted($0))\"" } ?? ""
        return """
            Content-Disposition: form-data; name="\(Self.quoted(name))"\(file)\r
            Content-Type: \(body.type)
            """
    }

    // Quotes like browsers do (WHATWG HTML, multipart/form-data encoding algorithm).
    private static func quoted(_ text: String) -> String {
        text.replacingOccurrences(of: "\r", with: "%0D")
            .replacingOccurrences(of: "\n", with: "%0A")
            .replacingOccurrences(of: "\"", with: "%22")
    }
}
