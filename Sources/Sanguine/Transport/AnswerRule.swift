import Foundation
import SanguineModel

/// Decides which responses are the backend's.
///
/// The login page of a network, a proxy, a firewall or a load balancer may respond instead of the
/// backend, with any status. It sends a web page, its own text, or a redirect, which no app
/// requests from its backend by accident. All code that decides this is in this file.
extension TransportResponse {
    /// Whether the response appears to be the backend's answer to the request: its status is 200 to
    /// 299, and its body does not come from an intermediary.
    ///
    /// A body that comes from an intermediary is a web page: its type is `text/html` or
    /// `application/xhtml+xml`, or it begins like HTML regardless of its type. A body that begins
    /// with a tag or a comment counts too if it has no type, or that of text or JSON, as does the
    /// type `application/captive+json` (RFC 8908). Types that the request's `Accept` names are
    /// allowed, and XML has its own types. An empty body is always allowed, because many frameworks
    /// send a type with it. A redirect that was not followed is not an answer. An app's own rule
    /// may start from this one; see ``SanguineClient/Configuration/isAnswer``.
    public func isAnswer(to request: TransportRequest) -> Bool {
        (200...299).contains(status) && !isForeignBody(to: request)
    }

    /// Whether a refusal or a redirect comes from something other than the backend.
    ///
    /// This applies to a page as described above with a status from 400 to 499, to the text that a
    /// router sends if it has no backend, and to a redirect, unless it permanently names a new
    /// address on the same host; see ``permanentAddress(of:)``.
    func isForeign(to request: TransportRequest) -> Bool {
        switch status {
        case 300...399: permanentAddress(of: request) == nil
        case 400...499: isForeignBody(to: request) || isRouterText
        default: false
        }
    }

    /// The address on the same host to which 301 or 308 (RFC 9110, sections 15.4.2 and 15.4.9)
    /// permanently moves a request; `nil` if the response does not do that.
    func permanentAddress(of request: TransportRequest) -> URL? {
        guard [301, 308].contains(status), let target = header("location"),
            let address = URL(string: target, relativeTo: request.url)?.absoluteURL,
            let host = address.host()?.lowercased(), host == request.url.host()?.lowercased()
        else { return nil }
        return address
    }

    /// Whether a success with status 200 contains nothing of the declared value, so that it does
    /// not confirm a write.
    ///
    /// The body is empty, is not JSON, is of another JSON type, or lacks the same member as `{}`
    /// does. Other statuses are not checked, because an intermediary sends 200.
    ///
    /// - Parameters:
    ///   - type: The declared type.
    ///   - decoder: Decodes the response.
    /// - Returns: Whether the response contains no part of the value; `false` if it can be decoded.
    func hasNothing<Value: Decodable>(of type: Value.Type, with decoder: JSONDecoder) -> Bool {
        guard status == 200 else { return false }
        let fault: DecodingError
        do {
            _ = try decoder.decode(type, from: body)
            return false
        } catch {
            guard (try? JSONValue(stored: Array(body))) != nil else { return true }
            guard let error = error as? DecodingError else { return false }
            fault = error
        }
        switch fault {
        case .typeMismatch(_, let context): return context.codingPath.isEmpty
        case .keyNotFound(let key, let context):
            do {
                _ = try decoder.decode(type, from: Data("{}".utf8))
            } catch DecodingError.keyNotFound(let first, let other) {
                return (context.codingPath + [key]).map(\.stringValue)
                    == (other.codingPath + [first]).map(\.stringValue)
            } catch {}
            return false
        default: return false
        }
    }

    /// Whether the response's header says that its body is a web page, or describes a login.
    var isPage: Bool {
        mediaType.map { Self.pageTypes.contains($0) || $0 == Self.captiveType } ?? false
    }

    /// The media type of the response, in lower case and without parameters.
    var mediaType: String? {
        guard let field = header("content-type") else { return nil }
        let type = field.prefix { $0 != ";" }.trimmingCharacters(in: .whitespaces).lowercased()
        return type.isEmpty ? nil : type
    }

    /// Describes a response that was not expected, without its body, which may be personal.
    var summary: String {
        "status \(status) with \(body.count) bytes of \(mediaType ?? "no named type")"
    }

    private func isForeignBody(to request: TransportRequest) -> Bool {
        guard !start.isEmpty else { return false }
        if mediaType == Self.captiveType { return !request.accepts([Self.captiveType]) }
        if request.accepts(Self.pageTypes + ["text/*", "*/*"]) { return false }
        return isPage || beginsAsPage || (beginsAsMarkup && mayBePage(request))
    }

    private var beginsAsPage: Bool {
        let text = String(decoding: start.prefix(16), as: UTF8.self).lowercased()
        return ["<!doctype html", "<html", "<head", "<body", "<script"].contains {
            text.hasPrefix($0)
        }
    }

    /// Whether the body begins with a tag, a comment or a declaration.
    private var beginsAsMarkup: Bool {
        let text = start.prefix(2)
        guard text.first == UInt8(ascii: "<"), let next = text.dropFirst().first else {
            return false
        }
        return (next | 0x20) >= UInt8(ascii: "a") && (next | 0x20) <= UInt8(ascii: "z")
            || [UInt8(ascii: "!"), UInt8(ascii: "?")].contains(next)
    }

    /// Whether the type allows that the body is a page.
    private func mayBePage(_ request: TransportRequest) -> Bool {
        guard let mediaType else { return true }
        if mediaType == "text/plain" { return !request.accepts([mediaType]) }
        return mediaType == "application/json" || mediaType.hasSuffix("+json")
    }

    /// Whether the body is a text that ingress controllers and the routers of Go and Traefik send
    /// if they have no backend for an address.
    private var isRouterText: Bool {
        let longest = 64
        guard body.count <= longest else { return false }
        let text = String(decoding: body, as: UTF8.self).lowercased()
            .trimmingCharacters(in: .whitespacesAndNewlines)
        return ["default backend - 404", "404 page not found"].contains(text)
    }

    /// The body after a byte order mark and white space.
    private var start: Data.SubSequence {
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        return (body.starts(with: mark) ? body.dropFirst(mark.count) : body[...])
            .drop { [0x09, 0x0A, 0x0D, 0x20].contains($0) }
    }

    private static let pageTypes = ["text/html", "application/xhtml+xml"]
    private static let captiveType = "application/captive+json"
}

extension TransportRequest {
    /// Whether the request's `Accept` names one of these types.
    fileprivate func accepts(_ types: [String]) -> Bool {
        let accept = headers.first { $0.key.lowercased() == "accept" }?.value.lowercased() ?? ""
        return types.contains { accept.contains($0) }
    }
}
