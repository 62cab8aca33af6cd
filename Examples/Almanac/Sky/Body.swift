/// A body of a chart, or a node of the Moon's orbit.
public enum Body: String, Codable, CaseIterable, Sendable {
    case sun, moon, mercury, venus, mars, jupiter, saturn, uranus, neptune
    /// The mean ascending node of the Moon's orbit.
    case rahu
    /// The mean descending node of the Moon's orbit.
    case ketu

    /// The terms of a planet; `nil` for the Sun, the Moon and the nodes.
    var series: PlanetSeries? {
        switch self {
        case .mercury: .mercury
        case .venus: .venus
        case .mars: .mars
        case .jupiter: .jupiter
        case .saturn: .saturn
        case .uranus: .uranus
        case .neptune: .neptune
        case .sun, .moon, .rahu, .ketu: nil
        }
    }
}
