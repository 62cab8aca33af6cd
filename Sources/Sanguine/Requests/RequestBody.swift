public import Foundation
import SanguineModel

/// A body that is not the JSON of a value: bytes, a file, or a form.
///
/// ```swift
/// try await request.post("photos", .multipart([.file("photo", at: url, type: "image/jpeg")]))
/// ```
///
/// It is put together when the request goes out. What it has in memory may be as large as
/// ``ClientLimits/requestBodyBytes``. Files are read while they are sent, a part at a time, and the
/// whole may be as large as ``ClientLimits/uploadBytes``. A form with files is put together on the
/// disk, and removed from there as soon as it was sent, or at the next start. Unless a file has
/// changed, the same operation always sends the same bytes.
public struct RequestBody: Sendable {
    enum Content: Sendable {
        case data(Data)
        case file(URL)
        case parts([FormPart])
    }

    let content: Content
    let type: String

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

    /// The content of a file, which is read while the request goes out.
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
    let name: String
    let fileName: String?
    let body: RequestBody

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

    /// A file, which is read while the request goes out.
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

extension FormPart {
    /// The header fields of the part (RFC 7578, section 4.2), without a line's end.
    var head: String {
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
