import Foundation
import SanguineModel

/// Which responses are the backend's answers.
///
/// The login page of a network, a proxy, a firewall or a load balancer may answer instead of the
/// backend, with any status. It sends a web page, a text of its own, or a redirect, and no app asks
/// its backend for one by accident. All code that judges this is here.
extension TransportResponse {
    /// Whether the response is the backend's answer to that request, as far as can be seen: its
    /// status is 200 to 299, and its body is not that of something in between.
    ///
    /// Such a body is a web page: of type `text/html` or `application/xhtml+xml`, or one that
    /// begins as HTML does, whatever its type. So is one that begins with a tag or a comment and
    /// has no type, or that of text or JSON, and one of type `application/captive+json` (RFC 8908).
    /// A request takes what its `Accept` names, and XML has types of its own. An empty body is
    /// none of these: many frameworks name a type with it. A redirect that was not followed is no
    /// answer. An app's own rule may begin with this one; see
    /// ``SanguineClient/Configuration/isAnswer``.
    public func isAnswer(to request: TransportRequest) -> Bool {
        (200...299).contains(status) && !isForeignBody(to: request)
    }

    /// Whether a refusal or a redirect comes from something other than the backend.
    ///
    /// A page as above with a status from 400 to 499, the text with which a router answers for a
    /// backend that it does not have, or a redirect, unless that names a new address on the same
    /// host for good; see ``permanentAddress(of:)``.
    func isForeign(to request: TransportRequest) -> Bool {
        switch status {
        case 300...399: permanentAddress(of: request) == nil
        case 400...499: isForeignBody(to: request) || isRouterText
        default: false
        }
    }

    /// The address on the same host to which 301 or 308 (RFC 9110, sections 15.4.2 and 15.4.9)
    /// moves a request for good; `nil` if the response says no such thing.
    func permanentAddress(of request: TransportRequest) -> URL? {
        guard [301, 308].contains(status), let target = header("location"),
            let address = URL(string: target, relativeTo: request.url)?.absoluteURL,
            let host = address.host()?.lowercased(), host == request.url.host()?.lowercased()
        else { return nil }
        return address
    }

    /// Whether a success with status 200 has nothing of the value that the app has declared, so
    /// that it says nothing about a write.
    ///
    /// It is empty, or no JSON, or of another JSON type, or it lacks the same member as `{}` does.
    /// Other statuses are not asked: what stands in for a backend says 200.
    ///
    /// - Parameters:
    ///   - type: The declared type.
    ///   - decoder: What reads the answer.
    /// - Returns: Whether there is nothing of it; `false` for what can be decoded.
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

    /// Whether the head of a response says that its body is a web page, or that of a login.
    var isPage: Bool {
        mediaType.map { Self.pageTypes.contains($0) || $0 == Self.captiveType } ?? false
    }

    /// The type that the response names, in lower case and without parameters.
    var mediaType: String? {
        guard let field = header("content-type") else { return nil }
        let type = field.prefix { $0 != ";" }.trimmingCharacters(in: .whitespaces).lowercased()
        return type.isEmpty ? nil : type
    }

    /// What kind of answer came instead; nothing of the body, which may be personal.
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

    /// Whether the type leaves open that the body is a page.
    private func mayBePage(_ request: TransportRequest) -> Bool {
        guard let mediaType else { return true }
        if mediaType == "text/plain" { return !request.accepts([mediaType]) }
        return mediaType == "application/json" || mediaType.hasSuffix("+json")
    }

    /// Whether the body is a text with which ingress controllers and the routers of Go and Traefik
    /// say that they know no backend for an address.
    private var isRouterText: Bool {
        let longest = 64
        guard body.count <= longest else { return false }
        let text = String(decoding: body, as: UTF8.self).lowercased()
            .trimmingCharacters(in: .whitespacesAndNewlines)
        return ["default backend - 404", "404 page not found"].contains(text)
    }

    /// The body behind a byte order mark and white space.
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
