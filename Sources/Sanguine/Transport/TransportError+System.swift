import Foundation

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

extension TransportError {
    /// The maximum nesting of underlying errors.
    private static let deepest = 4

    /// Classifies an error of a `URLSession`'s task by whether the server may have received the
    /// request.
    init(ofTask error: any Error) {
        self = TransportError(ofNetwork: error) ?? .interrupted("\(error)")
    }

    /// Classifies a network error in the forms of Foundation and the system; `nil` if it is not
    /// one.
    ///
    /// An error whose underlying error is a network error is one too.
    init?(ofNetwork error: any Error, depth: Int = 0) {
        switch error {
        case let error as TransportError: self = error
        case let error as URLError: self.init(error.code, error.localizedDescription)
        case let error as POSIXError: self.init(error.code)
        case is CancellationError: self = .cancelled
        default:
            // Not cast from `Error`, which Apple's systems would bridge implicitly.
            let object: Any = error
            guard depth < Self.deepest, let error = object as? NSError else { return nil }
            self.init(error, depth)
        }
    }

    private init?(_ error: NSError, _ depth: Int) {
        switch error.domain {
        case NSURLErrorDomain:
            // Every number is a valid code on Apple's systems, but not on others.
            let code: URLError.Code? = URLError.Code(rawValue: error.code)
            self.init(code ?? .unknown, error.localizedDescription)
        case NSPOSIXErrorDomain:
            guard let code = POSIXErrorCode(rawValue: Int32(truncatingIfNeeded: error.code))
            else { return nil }
            self.init(code)
        default:
            guard let underlying = error.userInfo[NSUnderlyingErrorKey] as? any Error
            else { return nil }
            self.init(ofNetwork: underlying, depth: depth + 1)
        }
    }

    private init(_ code: URLError.Code, _ text: String) {
        switch code {
        case .cancelled: self = .cancelled
        case .timedOut: self = .timedOut
        case .cannotConnectToHost: self = .offline("the connection was refused")
        case .cannotFindHost, .dnsLookupFailed: self = .offline("the host name is not known")
        case .notConnectedToInternet, .dataNotAllowed, .internationalRoamingOff, .callIsActive:
            self = .offline("there is no network")
        case .secureConnectionFailed, .serverCertificateUntrusted, .serverCertificateHasBadDate,
            .serverCertificateNotYetValid, .serverCertificateHasUnknownRoot,
            .clientCertificateRejected, .clientCertificateRequired:
            self = .offline("no secure connection could be made: \(text)")
        case .badURL, .unsupportedURL: self = .invalid("the address is not valid. Correct it.")
        case .fileDoesNotExist, .fileIsDirectory, .noPermissionsToReadFile:
            self = .invalid(
                "a file cannot be read (\(text)). Keep it where it is until it is sent."
            )
        default: self = .interrupted(text)
        }
    }

    /// Returns `nil` for errors of files and similar ones.
    private init?(_ code: POSIXErrorCode) {
        switch code {
        case .ECONNREFUSED: self = .offline("the connection was refused")
        case .ENETDOWN, .ENETUNREACH, .EHOSTDOWN, .EHOSTUNREACH, .EADDRNOTAVAIL:
            self = .offline("there is no network")
        case .ETIMEDOUT: self = .timedOut
        case .ECANCELED: self = .cancelled
        case .ECONNRESET, .ECONNABORTED, .ENETRESET, .ENOTCONN, .EPIPE, .ESHUTDOWN:
            self = .interrupted("the connection was lost")
        default: return nil
        }
    }
}
