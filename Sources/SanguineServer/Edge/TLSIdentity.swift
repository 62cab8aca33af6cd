import Foundation
import Logging
import NIOHTTP2
import NIOSSL
import Synchronization

/// What the server proves with who it is: a certificate chain and its key, from two PEM files.
///
/// ``reload()`` reads the files again. Connections keep what they began with; new ones get the new
/// certificate, or the one before where the files are no good.
///
/// Mutable state: `current`, by its mutex, since connections and the reload come from anywhere.
final class TLSIdentity: Sendable {
    private let certificate: String
    private let key: String
    private let current: Mutex<NIOSSLContext>

    /// Reads the files.
    ///
    /// - Parameters:
    ///   - certificate: The path of the certificate and of those it is signed with, in PEM.
    ///   - key: The path of its private key, in PEM, which only the owner may read.
    /// - Throws: ``TLSFileError``.
    init(certificate: String, key: String) throws(TLSFileError) {
        self.certificate = certificate
        self.key = key
        current = Mutex(try Self.read(certificate, key))
    }

    /// What new connections use.
    var context: NIOSSLContext { current.withLock { $0 } }

    /// Reads the files again.
    ///
    /// - Throws: ``TLSFileError``; the certificate from before stays.
    func reload() throws(TLSFileError) {
        let context = try Self.read(certificate, key)
        current.withLock { $0 = context }
    }

    private static func read(
        _ certificate: String,
        _ key: String
    ) throws(TLSFileError) -> NIOSSLContext {
        let secret: Data?
        do throws(OwnerFileError) {
            secret = try OwnerFile(URL(filePath: key)).read()
        } catch {
            throw .key(error)
        }
        guard let secret else { throw .missing(path: key) }
        guard let chain = try? Data(contentsOf: URL(filePath: certificate)) else {
            throw .missing(path: certificate)
        }
        do {
            let certificates = try NIOSSLCertificate.fromPEMBytes(Array(chain))
            guard !certificates.isEmpty else { throw TLSFileError.missing(path: certificate) }
            var configuration = TLSConfiguration.makeServerConfiguration(
                certificateChain: certificates.map { .certificate($0) },
                privateKey: .privateKey(try NIOSSLPrivateKey(bytes: Array(secret), format: .pem))
            )
            configuration.minimumTLSVersion = .tlsv12
            configuration.applicationProtocols = NIOHTTP2SupportedALPNProtocols
            // It also finds a key that is not the certificate's.
            return try NIOSSLContext(configuration: configuration)
        } catch let error as TLSFileError {
            throw error
        } catch {
            throw .unusable(certificate: certificate, key: key)
        }
    }
}

/// A reason why the server cannot prove who it is.
public enum TLSFileError: Error, Hashable {
    /// The file is not there, or cannot be read, or has no certificate.
    case missing(path: String)
    /// The key's file is no secret, or cannot be read.
    case key(OwnerFileError)
    /// The files are no certificate and its key in PEM.
    case unusable(certificate: String, key: String)
}

extension TLSFileError: CustomStringConvertible {
    /// What happened, and what to do about it.
    public var description: String {
        switch self {
        case .missing(let path):
            "There is nothing to read in \(path): check 'http.tlsCertificate' and 'http.tlsKey'."
        case .key(let error): "\(error)"
        case .unusable(let certificate, let key):
            """
            \(certificate) and \(key) are not a certificate and its key in PEM: check \
            'http.tlsCertificate' and 'http.tlsKey'.
            """
        }
    }
}
