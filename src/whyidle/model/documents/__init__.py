"""Documents other than the diagnosis: comparisons, histories, searches, fleets, plans of memory."""
